"""Search for right values in wrong places, taken from other elements of the output or of an input."""

from typing import NamedTuple

import torch

from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mismatch.matching import PARTICULAR, Target, fractions
from agent.diagnosis.mismatch.mismatch_description import unravelled

Tensor = torch.Tensor
LEAST = 8
"""Minimum number of wrong elements. Fewer might all equal other elements by chance."""
CLOSE = 1e-6
"""Tolerance relative to an element's magnitude plus the rms of all elements."""
LARGEST = 1 << 20
"""Maximum number of elements of an output or input that is searched."""


class _Pool(NamedTuple):
    """Values of a tensor in ascending order, in which equal values are searched."""

    values: Tensor
    places: Tensor
    """Flat position of each value in the tensor."""

    @classmethod
    def of(cls, tensor: Tensor) -> "_Pool":
        ordered = tensor.detach().reshape(-1).double().sort()
        return cls(ordered.values, ordered.indices)

    def nearest(self, wanted: Tensor) -> Tensor:
        """Return the index of the nearest value for each wanted one."""
        right = torch.searchsorted(self.values, wanted).clamp(1, self.values.numel() - 1)
        left = right - 1
        nearer = (wanted - self.values[left]).abs() <= (self.values[right] - wanted).abs()
        return torch.where(nearer, left, right)


def describe_misplaced(case: Case, target: Target) -> str | None:
    """Return a sentence; None if the wrong elements hold values found nowhere else."""
    y, truth = target.y, target.truth
    wrong = target.wrong
    held = y[wrong]
    enough = target.count >= LEAST and y.numel() <= LARGEST and bool(torch.isfinite(held).all())
    # Integer values equal other elements by chance.
    if not enough or fractions(held) < PARTICULAR or not bool(torch.isfinite(truth).all()):
        return None
    first = int(wrong.to(torch.uint8).argmax())
    at = unravelled(first, target.shape)
    for place, given in enumerate(case.inputs):
        chosen = _chosen(given, y, truth, first)
        if chosen is not None:
            name = f"input {place}"
            shown = f"{at} holds {name}{_listed(chosen[0])}, right is {name}{_listed(chosen[1])}"
            return f"Every element is one of {name}, the wrong ones another one: {shown}."
    pool = _Pool.of(truth)
    near = pool.nearest(held)
    size = float(truth.square().mean().sqrt())
    if bool(((held - pool.values[near]).abs() <= CLOSE * (held.abs() + size)).all()):
        other = unravelled(int(pool.places[near[0]]), target.shape)
        return f"Every wrong element holds the right value of another place: {at} has that of {other}."
    return None


def _chosen(
    given: Tensor, y: Tensor, truth: Tensor, first: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the position in the input that the first wrong element comes from, and the right position.

    None unless all elements of output and truth come from this input.
    """
    if not given.is_floating_point() or not 1 < given.numel() <= LARGEST:
        return None
    pool = _Pool.of(given)
    near, right = pool.nearest(y), pool.nearest(truth)
    if not torch.equal(pool.values[near], y) or not torch.equal(pool.values[right], truth):
        return None
    return unravelled(int(pool.places[near[first]]), given.shape), unravelled(
        int(pool.places[right[first]]), given.shape
    )


def _listed(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"
