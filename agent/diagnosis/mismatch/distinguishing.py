"""Search for a condition or a sign that tells wrong elements from right ones, where indices do not."""

from collections.abc import Iterator

import torch

from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import MOVES, Tape

Tensor = torch.Tensor
AGREEING = 0.99
"""Minimum share of elements whose correctness the condition predicts; some are right by chance."""
LEAST = 8
"""Minimum number of wrong elements and of right elements."""


def describe_condition(tape: Tape, target: Target) -> str | None:
    """Return words that complete "the wrong elements are ...", or None if no condition is known."""
    wrong = target.wrong.reshape(target.shape)
    if min(int(wrong.sum()), int((~wrong).sum())) < LEAST:
        return None
    for words, condition in _conditions(tape):
        for value, said in ((condition, f"where {words}"), (condition.logical_not(), f"where not {words}")):
            try:
                spread = value.expand(wrong.shape)
            except RuntimeError:
                break
            if bool((wrong & ~spread).any()):
                continue
            if float((wrong == spread).double().mean()) >= AGREEING:
                return said
    return None


def _conditions(tape: Tape) -> Iterator[tuple[str, Tensor]]:
    """Yield conditions in words with their masks: the reference's booleans, then the signs of its inputs."""
    for call in tape.calls:
        value = call.value
        if value is None or value.dtype is not torch.bool or value.numel() < 2 or call.name in MOVES:
            continue
        line = f" (`{call.place.text}`)" if call.place is not None and call.place.text else ""
        yield f"the result of {call.name} is true{line}", value
    seen: set[int] = set()
    for call in tape.calls:
        for given in call.given.values():
            if not isinstance(given, Tensor) or id(given) in seen or given.numel() < 2:
                continue
            seen.add(id(given))
            name = tape.name(given)
            if name is None or given.is_complex():
                continue
            if given.dtype is torch.bool:
                yield f"`{name}` is true", given
            else:
                yield f"`{name}` is negative", given < 0
                yield f"`{name}` is zero", given == 0
