"""A long reduction of few rows as two: every row in pieces, whose results are reduced again."""

from agent.compose.body import C_TYPES
from agent.compose.dims import Digit, Index, times
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel
from agent.compose.values import Pointwise, Reduction

PIECES = 256


def in_two(reduction: Reduction, points: int, sizes: Sizes) -> tuple[Reduction, Reduction]:
    """The reduction of the pieces of each row, and that of their results."""
    source = reduction.source
    over = [source.shape[axis] for axis in reduction.over]
    total = times(over, points)
    pieces = tuple(min(PIECES, size) for size in total)
    each = tuple(-(-size // count) for size, count in zip(total, pieces, strict=True))
    kept = len(reduction.shape)
    whole_row = " * ".join(sizes.text(size) for size in over)
    sizes.define(pieces, f"min({PIECES}, {whole_row})")
    sizes.define(each, f"-(-({whole_row}) // min({PIECES}, {whole_row}))")

    def element(kernel: Kernel, index: Index) -> str:
        piece, place = index[kept], index[kept + 1]
        digits = (*piece, *place)
        at = Digit(kernel.radix.number(digits), times([digit.size for digit in digits], points))

        def inside() -> str:
            rest = kernel.radix.regrouped(((Digit(at.text, total),),), over)
            own, of_rest = list(index[:kept]), list(rest)
            whole = tuple(
                of_rest.pop(0) if axis in reduction.over else own.pop(0) for axis in range(len(source.shape))
            )
            return kernel.at(source, whole)

        kind = reduction.kind.capitalize()
        c_type = C_TYPES[source.dtype]
        return kernel.body.choose(
            f"{at.text} < {kernel.size(kernel.product(over))}",
            source.dtype,
            inside,
            lambda: f"{kind}::none<{c_type}>()",
        )

    padded = Pointwise((*reduction.shape, pieces, each), source.dtype, source.about, (source,), element)
    first = Reduction(
        (*reduction.shape, pieces), reduction.dtype, reduction.about, padded, (kept + 1,), reduction.kind
    )
    return first, Reduction(reduction.shape, reduction.dtype, reduction.about, first, (kept,), reduction.kind)
