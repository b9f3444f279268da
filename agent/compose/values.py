"""What a composed program is made of: values that know how to compute any one of their elements.

A `Value` is a tensor that need not exist. `Buffer`s do; the others are computed where they are read, until
the plan decides that one is written to memory. `kernel` is what the text of an element is written for.
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
    """A tensor of this shape and dtype, as torch spells it; `about` says what it is in comments."""

    shape: tuple[Dim, ...]
    dtype: str
    about: str = ""

    @property
    def reads(self) -> tuple["Value", ...]:
        return ()

    def element(self, kernel: "Kernel", index: Index) -> str:
        """The C++ expression of one element; `index` has one entry for each dimension."""
        raise NotImplementedError


@dataclass(eq=False)
class Buffer(Value):
    """A contiguous tensor in memory: the variable `name` of `forward`."""

    name: str = ""

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.load(self, index)


@dataclass(eq=False)
class Pointwise(Value):
    """Each element from elements of `operands`; `work` is about how many instructions it takes."""

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
    """The same elements at other places.

    `text`: how Python spells it of {0}, where it can, with `sizes` for {1} and on. `is_reshape`: in the same
    order as well. `order`: the dimensions of what it is of, where it only changes their order.
    `is_expanded`: some of these have been one.
    """

    text: str | None = None
    is_reshape: bool = False
    order: tuple[int, ...] = ()
    is_expanded: bool = False
    sizes: tuple[Dim, ...] = ()


@dataclass(eq=False)
class Reduction(Value):
    """`kind` over the dimensions `over` of `source`, which the result has no more.

    `within`: how many elements of the row count, the first ones.
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
        """Whether the elements of a row lie apart."""
        return _is_across(self.source, self.over)


@dataclass(eq=False)
class Scan(Value):
    """For each element along the one dimension `over`, `kind` of those up to it; always in memory."""

    source: Value = field(default_factory=lambda: Value((), ""))
    over: tuple[int, ...] = ()
    kind: str = "sum"

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.source,)

    @property
    def is_across(self) -> bool:
        """Whether the elements of a row lie apart."""
        return _is_across(self.source, self.over)

    def element(self, kernel: "Kernel", index: Index) -> str:
        return kernel.elsewhere(self)


def _is_across(source: Value, over: tuple[int, ...]) -> bool:
    axes = [axis for axis, size in enumerate(source.shape) if not is_one(size)]
    return max(axes, default=-1) not in over


def broadcast(value: Value, shape: Sequence[Dim], index: Index) -> Index:
    """The index into `value` where an operator broadcasts it to `shape` and reads at `index`."""
    own = index[len(shape) - len(value.shape) :]
    return tuple(() if is_one(size) else digits for size, digits in zip(value.shape, own, strict=True))


class RowsOf(Exception):
    """A reduction is met, so that the kernel has to go by rows: those of these loop variables."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self.names = names


class Apart(Exception):
    """The value cannot be computed where it is read: it needs a kernel of its own."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value
