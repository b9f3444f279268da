"""Detection of functions in a PTX module that call themselves, directly or indirectly."""

from collections.abc import Iterator

from agent.emulator.ptx.syntax import Block, Function, Instruction, Module, Variable
from agent.emulator.ptx.types import TYPES

SAVED_BYTES = 8
"""Bytes that each call stores on the stack for the return address, besides its local variables."""


def recursive(module: Module) -> frozenset[str]:
    """Return the names of recursive functions; calls by pointer are not followed."""
    called = {f.name: set(_called(f.body)) for f in module.functions if f.body is not None}
    return frozenset(name for name in called if name in _reached(name, called))


def frame_bytes(function: Function) -> int:
    """Return the stack bytes of one call, assuming that its local variables are not kept in registers."""
    assert function.body is not None
    return SAVED_BYTES + sum(map(_bytes, _locals(function.body)))


def _reached(start: str, called: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    open_ones = [start]
    while open_ones:
        more = called.get(open_ones.pop(), set()) - reached
        reached |= more
        open_ones += more
    return reached


def _called(body: Block) -> Iterator[str]:
    for statement in body.statements:
        if isinstance(statement, Block):
            yield from _called(statement)
        elif isinstance(statement, Instruction) and statement.opcode == "call":
            yield from (operand.text for operand in statement.operands if operand.kind == "name")


def _locals(body: Block) -> Iterator[Variable]:
    for statement in body.statements:
        if isinstance(statement, Block):
            yield from _locals(statement)
        elif isinstance(statement, Variable) and statement.space == "local":
            yield statement


def _bytes(variable: Variable) -> int:
    type = TYPES.get(variable.type)
    return type.bits // 8 * (variable.count or 0) if type is not None else 0
