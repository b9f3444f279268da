"""Values of a composed program. Each value can compute any one of its elements.

A `Value` is a tensor that need not exist. A `Buffer` exists. The other values are computed where they are
read, until the plan decides to write one to memory. `kernel` is the kernel that contains the element's text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.compose.dims import Dim, Index, is_one

if TYPE_CHECKING:
    from agent.compose.kernel import Kernel

Element = Callable[["Kernel", Index], str]


@dataclass(eq=False)
class Value:
    """A tensor of this shape and dtype, as torch spells it. `about` describes it in comments."""

    shape: tuple[Dim, ...]
    dtype: str
    about: str = ""

    @property
    def reads(self) -> tuple["Value", ...]:
        return ()

    def element(self, kernel: "Kernel", index: Index) -> str:
        """Return the C++ expression of one element. `index` has one entry for each dimension."""
        raise NotImplementedError


@dataclass(eq=False)
class Buffer(Value):
    """A contiguous tensor in memory: the variable `name` of `forward`."""

    name: str = ""

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.load(self, index)


@dataclass(eq=False)
class Pointwise(Value):
    """A value computed from elements of `operands`. `work` is the approximate instructions per element."""

    operands: tuple[Value, ...] = ()
    compute: Element = field(default=lambda kernel, index: "")
    work: int = 1

    @property
    def reads(self) -> tuple[Value, ...]:
        return self.operands

    def element(self, kernel: "Kernel", index: Index) -> str:
        return self.compute(kernel, index)


@dataclass(eq=False)
class View(Pointwise):
    """View of the elements of another value, at other places.

    `text`: Python for the view, if there is one, with {0} for the source and {1} and on for `sizes`.
    `is_reshape`: the order of the elements is also the same. `order`: source dimensions, permuted, for a view
    that only changes their order. `is_expanded`: some dimensions are expanded from size one.
    """

    text: str | None = None
    is_reshape: bool = False
    order: tuple[int, ...] = ()
    is_expanded: bool = False
    sizes: tuple[Dim, ...] = ()


@dataclass(eq=False)
class Reduction(Value):
    """A reduction of `source` by `kind` over the dimensions `over`, which the result no longer has.

    `within`: number of leading elements of the row that count.
    """

    source: Value = field(default_factory=lambda: Value((), ""))
    over: tuple[int, ...] = ()
    kind: str = "sum"
    within: "Callable[[Kernel, Index], str] | None" = None

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.source,)

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.reduced(self, index)

    @property
    def is_across(self) -> bool:
        """Return True if the elements of a row lie apart in memory."""
        return _is_across(self.source, self.over)


@dataclass(eq=False)
class Scan(Value):
    """A scan of `source` by `kind` along the one dimension `over`, inclusive. Always in memory."""

    source: Value = field(default_factory=lambda: Value((), ""))
    over: tuple[int, ...] = ()
    kind: str = "sum"

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.source,)

    @property
    def is_across(self) -> bool:
        """Return True if the elements of a row lie apart in memory."""
        return _is_across(self.source, self.over)

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.elsewhere(self)


@dataclass(eq=False)
class Scatter(Value):
    """A copy of `base` in which the elements of `source` are written to, or added at, computed places.

    `place`: index into `base` of each index into `source`. `places`: values that it reads. Always in memory.
    """

    base: Value = field(default_factory=lambda: Value((), ""))
    source: Value = field(default_factory=lambda: Value((), ""))
    places: tuple[Value, ...] = ()
    place: Callable[["Kernel", Index], Index] = field(default=lambda kernel, index: index)
    is_added: bool = False

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.base, self.source, *self.places)

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.elsewhere(self)


def _is_across(source: Value, over: tuple[int, ...]) -> bool:
    axes = [axis for axis, size in enumerate(source.shape) if not is_one(size)]
    return max(axes, default=-1) not in over


def broadcast(value: Value, shape: Sequence[Dim], index: Index) -> Index:
    """Return the index into `value` if an operator broadcasts it to `shape` and reads at `index`."""
    own = index[len(shape) - len(value.shape) :]
    return tuple(() if is_one(size) else digits for size, digits in zip(value.shape, own, strict=True))


class RowsOf(Exception):
    """Raised when a reduction is met. The kernel then has to go by rows, those of these loop variables."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names


class Apart(Exception):
    """Raised for a value that cannot be computed where it is read and needs a kernel of its own."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value
