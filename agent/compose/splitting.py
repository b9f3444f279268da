"""Long reductions of few rows, as two: each row is reduced in pieces, and their results are reduced again."""

from agent.compose.dims import Digit, Index, times
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel
from agent.compose.values import Pointwise, Reduction

PIECES, PIECE = 1024, 4096
"""Maximum number of pieces, and minimum elements per piece. Small rows still have three pieces."""
_BETWEEN = {"float16": "float32", "bfloat16": "float32"}
"""Dtype of the pieces' results where it differs from the reduction's. A piece's result may be larger than the
total."""
_MOST, _LEAST = (f"(1 << {count.bit_length() - 1})" for count in (PIECES, PIECE))
"""Text of both limits in the file, as shifts: no problem size looks like that."""


def in_two(reduction: Reduction, points: int, sizes: Sizes) -> tuple[Reduction, Reduction]:
    """Return the reduction of the pieces of each row, and the reduction of their results."""
    outer = reduction.source.shape[reduction.over[0]]
    rows = times(reduction.shape, points)
    if len(reduction.over) > 1 and rows[0] * outer[0] >= PIECES:
        return _by_outer(reduction, sizes)
    source = reduction.source
    over = [source.shape[axis] for axis in reduction.over]
    total = times(over, points)
    pieces = tuple(min(PIECES, max(3, size // PIECE), size) for size in total)
    each = tuple(-(-size // (4 * count)) * 4 for size, count in zip(total, pieces, strict=True))
    kept = len(reduction.shape)
    whole_row = " * ".join(sizes.text(size) for size in over)
    count = f"min({_MOST}, max(3, {whole_row} // {_LEAST}), {whole_row})"
    sizes.define(pieces, count)
    sizes.define(each, f"-(-({whole_row}) // (4 * {count})) * 4")

    def place_of(kernel: Kernel, index: Index, place: str) -> str:
        return (
            f"({kernel.radix.number(index[kept])} * {kernel.size(each)} + {place})" if index[kept] else place
        )

    def within(kernel: Kernel, index: Index) -> str:
        row = kernel.product(over)
        kernel.by_vectors(row)
        return f"{kernel.size(row)} - {place_of(kernel, index, '0')}"

    def element(kernel: Kernel, index: Index) -> str:
        at = place_of(kernel, index, kernel.radix.number(index[kept + 1]))
        rest = list(kernel.radix.regrouped(((Digit(at, total),),), over))
        own = list(index[:kept])
        whole = tuple(
            rest.pop(0) if axis in reduction.over else own.pop(0) for axis in range(len(source.shape))
        )
        return kernel.at(source, whole)

    padded = Pointwise((*reduction.shape, pieces, each), source.dtype, source.about, (source,), element)
    first = Reduction(
        (*reduction.shape, pieces),
        _BETWEEN.get(reduction.dtype, reduction.dtype),
        reduction.about,
        padded,
        (kept + 1,),
        reduction.kind,
        within,
    )
    return first, Reduction(reduction.shape, reduction.dtype, reduction.about, first, (kept,), reduction.kind)


def _by_outer(reduction: Reduction, sizes: Sizes) -> tuple[Reduction, Reduction]:
    """Return the same reductions, with pieces that consist of whole indices of the first dimension.

    No index has to be divided then.
    """
    source, kept = reduction.source, len(reduction.shape)
    outer, *others = (source.shape[axis] for axis in reduction.over)
    pieces = tuple(min(PIECES, size) for size in outer)
    each = tuple(-(-size // count) for size, count in zip(outer, pieces, strict=True))
    text = sizes.text(outer)
    sizes.define(pieces, f"min({_MOST}, {text})")
    sizes.define(each, f"-(-{text} // min({_MOST}, {text}))")

    def place(kernel: Kernel, index: Index) -> str:
        first = kernel.radix.number(index[kept])
        return f"({first} * {kernel.size(each)} + {kernel.radix.number(index[kept + 1])})"

    def within(kernel: Kernel, index: Index) -> str:
        first = f"{kernel.radix.number(index[kept])} * {kernel.size(each)}"
        return f"({kernel.size(outer)} - {first}) * {kernel.size(kernel.product(others))}"

    def element(kernel: Kernel, index: Index) -> str:
        rest: list[tuple[Digit, ...]] = [(Digit(place(kernel, index), outer),), *index[kept + 2 :]]
        own = list(index[:kept])
        return kernel.at(
            source,
            tuple(rest.pop(0) if axis in reduction.over else own.pop(0) for axis in range(len(source.shape))),
        )

    shape = (*reduction.shape, pieces, each, *others)
    padded = Pointwise(shape, source.dtype, source.about, (source,), element)
    over = tuple(range(kept + 1, len(shape)))
    between = _BETWEEN.get(reduction.dtype, reduction.dtype)
    first = Reduction(shape[: kept + 1], between, reduction.about, padded, over, reduction.kind, within)
    return first, Reduction(reduction.shape, reduction.dtype, reduction.about, first, (kept,), reduction.kind)
