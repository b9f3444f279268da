"""Syntax tree of a PTX module, with unresolved names and unchecked types."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field


class Untranslated(Exception):
    """Unsupported PTX; the caller falls back to the rewriting route.

    `line` is the line in the candidate's source, or 0 if the PTX does not give it.
    """

    def __init__(self, instruction: str, line: int = 0) -> None:
        super().__init__(f"{instruction} (line {line})" if line else instruction)
        self.instruction = instruction
        self.line = line


@dataclass(frozen=True)
class Place:
    """Position of an instruction in the candidate's source; zeros if unknown."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Operand:
    """Operand of an instruction. `kind` determines which of the other fields are set:

    name       text: a register, variable, label, function or special register; offset: added to it
    immediate  text: a number as written
    address    parts: one name or immediate, and coordinates of a tensor map; offset: added to it
    vector     parts: `{a, b}`
    list       parts: `(a, b)` of a call
    pair       parts: `a|b`
    not        parts: one name
    """

    kind: str
    text: str = ""
    offset: int = 0
    parts: tuple["Operand", ...] = ()


@dataclass(frozen=True)
class Instruction:
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None
    place: Place

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True)
class Variable:
    """Declared name with `count` elements of `type`. `count` is None if the text gives no size (`[]`)."""

    space: str
    type: str
    name: str
    align: int = 0
    count: int | None = 1
    is_array: bool = False
    is_range: bool = False
    """True for a register range: `%r<5>` declares %r0 to %r4."""
    initial: tuple[str, ...] = ()
    linkage: str = ""


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Targets:
    """Labels that an indexed branch chooses from (`.branchtargets`)."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Prototype:
    """Prototype for calls by pointer (`.callprototype`); only its name is kept."""

    name: str


@dataclass
class Block:
    statements: list["Statement"] = field(default_factory=list)


Statement = Instruction | Variable | Label | Targets | Prototype | Block


def named_once(block: Block) -> frozenset[str]:
    """Return the names that exactly one operand uses, in the block and its nested blocks."""
    counted = Counter(_named(block))
    return frozenset(name for name, count in counted.items() if count == 1)


def _named(block: Block) -> Iterator[str]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _named(statement)
        elif isinstance(statement, Instruction):
            guard = (statement.guard,) if statement.guard is not None else ()
            for operand in (*statement.operands, *guard):
                yield from _names_of(operand)


def _names_of(operand: Operand) -> Iterator[str]:
    if operand.text:
        yield operand.text
    for part in operand.parts:
        yield from _names_of(part)


@dataclass(frozen=True)
class Function:
    name: str
    is_entry: bool
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    body: Block | None
    place: Place
    linkage: str = ""


@dataclass(frozen=True)
class Module:
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
