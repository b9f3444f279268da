"""How the expected shape comes about, operator by operator, and what a wrong one has instead."""

from collections.abc import Iterator

import torch

from agent.diagnosis.tape import MOVES, Call, Tape, tensors
from agent.records import Finding

LINES = 12
"""Operators of the chain that are shown; of a longer one the last."""
Shape = tuple[int, ...]


def explain(tape: Tape, given: Shape, wanted: Shape, finding: Finding) -> Finding:
    """The finding for a wrong shape with its cause in the message, and the chain as evidence."""
    chain = list(_chain(tape))
    shown = chain[-LINES:]
    left_out = [f"... ({len(chain) - len(shown)} operators before)"] if len(chain) > len(shown) else []
    message = finding.message
    broadcast = next((_broadcast(call) for call in reversed(tape.calls) if _broadcast(call)), None)
    if broadcast is not None:
        message += f" The reference broadcasts {broadcast}: shapes are aligned from the right."
    message += _difference(given, wanted, tape)
    return finding.model_copy(update={"message": message, "evidence": "\n".join([*left_out, *shown])})


def _chain(tape: Tape) -> Iterator[str]:
    for call in tape.calls:
        if call.name in MOVES and not call.is_view:
            continue
        for result in tensors(call.result)[:1]:
            step = _broadcast(call)
            operands = ", ".join(str(tuple(t.shape)) for t in tensors(call.given))
            yield f"{call.name.strip('_')}: {step or f'{operands} -> {tuple(result.shape)}'}"


def _broadcast(call: Call) -> str | None:
    """Operands of different shapes that an elementwise operator brings together."""
    operands = [t for name, t in call.given.items() if name in ("self", "other", "tensor1", "tensor2")
                and isinstance(t, torch.Tensor) and t.dim()]  # fmt: skip
    if (
        len(operands) < 2
        or not isinstance(call.result, torch.Tensor)
        or call.name in ("mm", "bmm", "mv", "dot")
    ):
        return None
    shapes = [tuple(t.shape) for t in operands]
    if len(set(shapes)) < 2:
        return None
    return f"{' with '.join(map(str, shapes))} -> {tuple(call.result.shape)}"


def _difference(given: Shape, wanted: Shape, tape: Tape) -> str:
    without_ones = [size for size in given if size > 1], [size for size in wanted if size > 1]
    if without_ones[0] == without_ones[1]:
        more = "has dims of size 1 too many" if len(given) > len(wanted) else "lacks dims of size 1"
        same = "has its dims of size 1 elsewhere" if len(given) == len(wanted) else more
        return f" The given shape {same}, as after another keepdim or squeeze."
    if sorted(given) == sorted(wanted):
        return " The given shape has the same dims in another order."
    stage = next(
        (c for c in reversed(tape.calls) if c.value is not None and tuple(c.value.shape) == given), None
    )
    if stage is not None:
        return f" The given shape is that of the result of {stage.name.strip('_')}, an earlier step."
    return ""
