"""Inversion of a wrong output through the final operators of the reference, as far as they have an inverse.

The result is the intermediate value from which the reference's remaining operators would compute this output.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.tape import Call, Tape

Tensor = torch.Tensor
MOST = 8
"""Maximum number of final operators of the reference that are inverted."""
_INVERSES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.atanh,
    "sigmoid": torch.logit,
    "exp": torch.log,
    "log": torch.exp,
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
    "atan": torch.tan,
}
_SAME = frozenset({"clone", "alias", "detach", "lift_fresh", "contiguous", "_to_copy"})
_RESHAPED = frozenset({"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"})


class Stage(NamedTuple):
    """Intermediate value of the reference, with the value that would explain the wrong output."""

    value: Tensor
    """Value that the reference computes."""
    given: Tensor
    """Value that would give the wrong output."""
    words: str


def peel_operators(tape: Tape, number: int, output: Tensor) -> Iterator[Stage]:
    """Yield the stages before output `number`, from the last operator backwards."""
    tensor, given = tensors(tape.result)[number], output.double()
    for _ in range(MOST):
        call = tape.maker(tensor)
        before = None if call is None or tape.in_place else _before(tape, call, given)
        if before is None:
            return
        tensor, given = before
        if not bool(torch.isfinite(given).all()):
            return
        maker = tape.maker(tensor)
        if maker is None:
            return
        if not (maker.is_view or maker.name in _SAME):
            yield Stage(tensor.detach().double(), given, _called(maker))


def _before(tape: Tape, call: Call, given: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the computed operand and the value it would have to have; None if that is unknown."""
    operand, other = call.given.get("self"), call.given.get("other")
    if not isinstance(operand, Tensor):
        return None
    if call.name in _SAME or call.name in _RESHAPED:
        return (operand, given.reshape(operand.shape)) if given.numel() == operand.numel() else None
    if call.name in _INVERSES:
        return operand, _INVERSES[call.name](given)
    if call.name == "leaky_relu":
        slope = call.given["negative_slope"]
        return (operand, torch.where(given > 0, given, given / slope)) if slope > 0 else None
    if call.name == "_prelu_kernel":
        weight = call.given["weight"].detach().double()
        return (operand, torch.where(given > 0, given, given / weight)) if bool((weight > 0).all()) else None
    if call.name not in ("add", "sub", "mul", "div") or call.given.get("rounding_mode") is not None:
        return None
    return _arithmetic(tape, call, operand, other, given)


def _arithmetic(
    tape: Tape, call: Call, operand: Tensor, other: Any, given: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Invert arithmetic of a computed operand with a number, an input or a parameter."""
    alpha, is_first = call.given.get("alpha", 1), not _is_known(tape, operand)
    if _is_known(tape, other) != is_first:
        return None
    wanted = operand if is_first else other
    known = other if is_first else operand
    known = known.detach().double() if isinstance(known, Tensor) else known
    if call.name == "add":
        made = given - alpha * known if is_first else (given - known) / alpha
    elif call.name == "sub":
        made = given + alpha * known if is_first else (known - given) / alpha
    elif call.name == "mul":
        made = given / known
    else:
        made = given * known if is_first else known / given
    return (wanted, made) if made.shape == wanted.shape else None


def _is_known(tape: Tape, operand: Any) -> bool:
    """Return True for a number, an input, a parameter or a view of one."""
    return not isinstance(operand, Tensor) or tape.maker(operand) is None or tape.name(operand) is not None


def _called(call: Call) -> str:
    line = f" (`{call.place.text}`)" if call.place is not None and call.place.text else ""
    return f"the result of {call.name.strip('_')}{line}"
