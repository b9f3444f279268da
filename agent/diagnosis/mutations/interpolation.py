"""Mutations of written-out interpolation: fewer neighbours or other weights than in the reference."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Needing, tensors
from agent.diagnosis.mutations.groups import Group, Groups, variant
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
_GATHERS = frozenset({"gather", "index", "index_select", "select", "slice"})
MOST = 6
"""Maximum number of neighbours from which pairs are taken."""


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    """Yield variants whose last operator returns one neighbour, or interpolates linearly between two."""
    final = _final(groups)
    if final is None or final.first.value is None:
        return
    fractions = [
        group.first.result
        for group in groups.computing()
        if group.name in ("sub", "frac") and roles.is_fraction(groups.tape, group.first.result)
    ]
    if not fractions:
        return
    shape = final.first.value.shape
    taps = [
        call.result
        for call in groups.tape.calls
        if call.name in _GATHERS
        and isinstance(call.result, Tensor)
        and call.result.is_floating_point()
        and call.result.shape == shape
    ][:MOST]  # fmt: skip
    for place, one in enumerate(taps):
        words = f"with one neighbour alone, number {place + 1} of {len(taps)}: not interpolated (nearest)"
        yield variant("interpolation-mode", words, {final.first.number: _of((one,), lambda v: v[0])}, 1)
        for other_place, other in enumerate(taps):
            for t in fractions if other is not one else []:
                spread = _spread(t, shape)
                if spread is None:
                    continue
                words = (
                    f"with linear interpolation between neighbours {place + 1} and {other_place + 1} of "
                    f"{len(taps)} alone"
                )
                line = lambda v, f=spread: v[0] + (v[1] - v[0]) * f(v[2])  # noqa: E731
                yield variant(
                    "interpolation-mode", words, {final.first.number: _of((one, other, t), line)}, 0
                )


def _of(needs: tuple[Tensor, ...], compute: Callable[[Sequence[Tensor]], Tensor]) -> Needing:
    return Needing(needs, lambda given, values: compute(values))


def _final(groups: Groups) -> Group | None:
    results = tensors(groups.tape.result)
    maker = groups.tape.maker(results[0]) if len(results) == 1 else None
    return None if maker is None or maker.written else groups.of(maker)


def _spread(t: Tensor, shape: torch.Size) -> Callable[[Tensor], Tensor] | None:
    """Return the change that lets the fraction broadcast to the result, or None.

    The fraction stays as it is or gets a dim of size one.
    """
    if _broadcasts(t, shape):
        return torch.clone
    axis = next((axis for axis in range(t.dim() + 1) if _broadcasts(t.unsqueeze(axis), shape)), None)
    return None if axis is None else partial(torch.unsqueeze, dim=axis)


def _broadcasts(t: Tensor, shape: torch.Size) -> bool:
    pairs = zip(reversed(t.shape), reversed(shape), strict=False)
    return t.dim() <= len(shape) and all(own in (1, whole) for own, whole in pairs)
