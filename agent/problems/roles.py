"""Classify each size of a reference by the changes in its trace when that size changes.

Traces are requested from the caller; no code of a reference runs here. Sizes form one Dimension if they are
equal and have the same role. Sizes that can only change together also form one Dimension, such as a literal
in `get_inputs` and the constructor argument it has to match. So do two values with a fixed ratio (an image
and the windows that tile it). A size that changes no shape, or changes a window (kernel size, stride,
padding, dilation), is not a dimension.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import combinations
from typing import NamedTuple

from agent.problems.form import same_operators
from agent.problems.sizes import Size
from agent.records import Operation, TensorSpec, Trace

Values = Mapping[str, int]
"""Changed sizes by name; sizes not listed keep their real values."""
Attempt = Callable[[Values], Trace | None]
"""Function that traces the reference at other sizes; None if it does not run on them."""

LEAST_PROBED = 4
"""Smallest size that is probed: a batch of 3 is small enough, and kernel sizes and strides are this small."""
_WINDOW = ("kernel_size", "stride", "padding", "dilation", "output_padding", "groups", "output_size")
_NOT_REDUCED = (
    "cat",
    "stack",
    "unsqueeze",
    "squeeze",
    "select",
    "slice",
    "split",
    "unbind",
    "gather",
    "index",
)
_RECURRENT = ("gru", "lstm", "rnn_tanh", "rnn_relu")
_PRODUCTS = {"mm": ((0, 1), (1, 0)), "bmm": ((0, 2), (1, 1)), "addmm": ((1, 1), (2, 0))}
"""Operand and dimension that each product sums over."""


class Role(IntEnum):
    """Role of a dimension, in the order in which dimensions are scaled down."""

    BATCH = 0
    """Leading dimension of the inputs, across which nothing is computed."""
    SPACE = 1
    """Dimension over which a convolution or pooling window slides."""
    FREE = 2
    """Rows, columns or positions: not summed over, except by a product whose operands are inputs."""
    REDUCED = 3
    """Dimension that is summed, normalised or scanned over."""
    CONSTRUCTOR = 4
    """Constructor argument: channels, features, heads."""
    DEFAULT = 5
    """Default of a constructor argument, passed explicitly when it changes."""


class Dimension(NamedTuple):
    """Sizes that change together: of one value, or of two in a fixed ratio."""

    names: tuple[str, ...]
    value: int
    """Value of the sizes; the larger one if there are two."""
    role: Role
    space: int = 0
    """Number of dimensions that the window covers, for the role SPACE."""
    divided: tuple[str, ...] = ()
    """Names whose value is this dimension's value divided by `step`."""
    step: int = 1
    """Number that divides every value of the dimension."""

    def sizes(self, value: int) -> dict[str, int]:
        """Return each size by name for this value of the dimension."""
        return {name: value // self.step if name in self.divided else value for name in self.names}


class _Effect(NamedTuple):
    """Effects of a size on the trace."""

    windows: bool
    space: int
    reduced: bool
    leads_inputs: bool
    any: bool


def dimensions(
    found: Iterable[Size], constructor: frozenset[str], real: Trace, attempt: Attempt
) -> tuple[Dimension, ...]:
    """Return the dimensions of a reference, in the order of its source."""
    alike: dict[int, list[Size]] = {}
    for size in found:
        if size.value >= LEAST_PROBED:
            alike.setdefault(size.value, []).append(size)
    made: list[Dimension] = []
    stuck: dict[int, list[Size]] = {}
    for value, group in alike.items():
        made += _grouped(group, constructor, real, attempt)
        known = {name for dimension in made for name in dimension.names}
        stuck[value] = [size for size in group if size.name not in known]
    return (*made, *_in_ratio(stuck, constructor, real, attempt))


def _in_ratio(
    stuck: Mapping[int, list[Size]], constructor: frozenset[str], real: Trace, attempt: Attempt
) -> Iterator[Dimension]:
    """Yield dimensions of two values that can only change together; each value is in at most one."""
    left = {value: sizes for value, sizes in stuck.items() if sizes}
    for small, large in combinations(sorted(left), 2):
        if large % small or not {small, large} <= left.keys():
            continue
        together = [*left[large], *left[small]]
        effect = _effect(together, real, attempt)
        if effect is not None and effect.any and not effect.windows:
            role, divided = _role(effect, together, constructor, real), left.pop(small)
            names = tuple(size.name for size in together)
            space = effect.space if role is Role.SPACE else 0
            yield Dimension(names, large, role, space, tuple(s.name for s in divided), large // small)
            left.pop(large)


def _grouped(
    group: list[Size], constructor: frozenset[str], real: Trace, attempt: Attempt
) -> Iterator[Dimension]:
    """Yield the dimensions of sizes with the same value."""
    by_role: dict[tuple[Role, int], list[str]] = {}
    stuck, showing = [], []
    for size in group:
        effect = _effect((size,), real, attempt)
        if effect is None or not effect.any and size.name.startswith("get_"):
            # The bound of `torch.randint(0, 1000, ...)` changes no shape but must match a size 1000 that
            # does.
            stuck.append(size)
        elif effect.any and not effect.windows:
            showing.append(size)
            role = _role(effect, (size,), constructor, real)
            by_role.setdefault((role, effect.space), []).append(size.name)
    for together in (stuck, [size for size in group if size in stuck or size in showing]):
        effect = _effect(together, real, attempt) if stuck and len(together) > 1 else None
        if effect is not None and effect.any and not effect.windows:
            joined = {size.name for size in together}
            by_role = {key: [n for n in names if n not in joined] for key, names in by_role.items()}
            role = _role(effect, together, constructor, real)
            by_role.setdefault((role, effect.space), []).extend(size.name for size in together)
            break
    for (role, space), names in by_role.items():
        if names:
            yield Dimension(tuple(names), group[0].value, role, space if role is Role.SPACE else 0)


def _effect(sizes: Iterable[Size], real: Trace, attempt: Attempt) -> _Effect | None:
    """Return the effect of changing these sizes in their ratio; None if the reference runs at no others."""
    sizes = tuple(sizes)
    value = max(size.value for size in sizes)
    step = value // min(size.value for size in sizes)
    half = value // 2
    other = (half - (half - value) % 32, half - (half - value) % 4, half, value * 2)
    for probe in dict.fromkeys(v for v in other if v >= 2 and v != value and v % step == 0):
        seen = attempt({size.name: probe * size.value // value for size in sizes})
        if seen is not None and same_operators(real, seen):
            return _difference(real, seen)
    return None


def _difference(real: Trace, seen: Trace) -> _Effect:
    windows, space, reduced = False, 0, False
    changed = real.operations != seen.operations
    for one, other in zip(real.operations, seen.operations, strict=True):
        if not one.op.startswith("as_strided"):
            # The strides of a view do not belong to a window.
            windows |= any(one.attributes.get(name) != other.attributes.get(name) for name in _WINDOW)
        places = [
            (number, place)
            for number, (before, after) in enumerate(zip(one.inputs, other.inputs, strict=True))
            for place, extent in enumerate(before.shape)
            if extent != after.shape[place]
        ]
        rank = _window_rank(one)
        if one.op == "convolution":
            windows |= any(number == 1 and place >= 2 for number, place in places)
        if rank and any(number == 0 and place >= len(one.inputs[0].shape) - rank for number, place in places):
            space = max(space, rank)
        reduced |= any(_is_reduced(one, number, place, real) for number, place in places)
    leads = [
        place
        for before, after in zip(real.inputs, seen.inputs, strict=True)
        if isinstance(before, TensorSpec) and isinstance(after, TensorSpec)
        for place, extent in enumerate(before.shape)
        if extent != after.shape[place]
    ]
    return _Effect(windows, space, reduced, bool(leads) and not any(leads), changed or bool(leads))


def _window_rank(operation: Operation) -> int:
    """Return how many trailing dimensions a window covers; 1 if the first of them has extent 1."""
    if operation.op == "convolution" and len(operation.inputs) > 1:
        return len(operation.inputs[1].shape) - 2
    windows = operation.attributes.get("kernel_size")
    if "pool" in operation.op and isinstance(windows, list):
        flat = operation.inputs[0].shape[-len(windows)] == 1
        return 1 if flat else len(windows)
    return 0


def _is_reduced(operation: Operation, number: int, place: int, trace: Trace) -> bool:
    """Return True if an operator sums, normalises or scans over a dimension of one operand."""
    given, rank = operation.attributes, len(operation.inputs[number].shape)
    if operation.op in _PRODUCTS:
        # In a product of two inputs all three dimensions are alike, unless one operand is a vector: such a
        # product is a sum.
        alike = not trace.state and operation.outputs[0].shape[-1] > 1
        return not alike and (number, place) in _PRODUCTS[operation.op]
    if operation.op == "native_layer_norm" or "scaled_dot_product" in operation.op:
        normalised = given.get("normalized_shape")
        return place >= (rank - len(normalised) if isinstance(normalised, list) else 2)
    if operation.op == "native_group_norm":
        return number == 0 and place >= 1
    if operation.op == "native_batch_norm":
        return bool(given.get("training")) and number == 0 and place != 1
    if operation.op in _RECURRENT:
        return number == 0 and place == (1 if given.get("batch_first") else 0)
    if not operation.outputs or operation.op.startswith(_NOT_REDUCED):
        return False
    summed = given.get("dim")
    if type(summed) is int:
        return place == summed % rank
    if isinstance(summed, list) and summed:
        return place in [axis % rank for axis in summed if type(axis) is int]
    return bool(operation.inputs) and not operation.outputs[0].shape and rank > 0


def _role(effect: _Effect, sizes: Iterable[Size], constructor: frozenset[str], real: Trace) -> Role:
    if any(size.span is None for size in sizes):
        return Role.DEFAULT
    if any(size.name in constructor for size in sizes):
        return Role.CONSTRUCTOR
    if effect.space:
        return Role.SPACE
    if effect.reduced:
        return Role.REDUCED
    return Role.BATCH if effect.leads_inputs and not _rows_of_a_product(real) else Role.FREE


def _rows_of_a_product(trace: Trace) -> bool:
    """Return True if a matrix's first dimension is the rows of a product, which tiles cover."""
    matrices = all(len(spec.shape) <= 2 for spec in trace.inputs if isinstance(spec, TensorSpec))
    return matrices and any(operation.op in ("mm", "addmm") for operation in trace.operations)
