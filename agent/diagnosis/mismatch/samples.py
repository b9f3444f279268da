"""A case reduced to a few samples, if the samples of the reference do not depend on each other."""

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch.case import MOST_BYTES, Case
from agent.diagnosis.mismatch.searching import FAILING

AT_ONCE = 1 << 22
"""Approximate number of output elements compared at a time."""
SAME = 1e-9
"""Maximum relative difference, in float64, between a sample computed alone and with all samples."""


def part(case: Case, most: int) -> Case | None:
    """Cut out samples of dim 0, a wrong one among them, with about `most` elements; None if impossible.

    The inputs that hold samples are found by trial. First all inputs are cut whose first dimension is the
    output's, then only the first such input. Cut inputs become float64.
    """
    count = case.truth[0].shape[0] if case.truth and case.truth[0].dim() else 0
    if count < 4 or any(t.dim() == 0 or t.shape[0] != count for t in case.truth):
        return None
    if len(case.arguments) != len(case.inputs):
        return None
    holders = [place for place, t in enumerate(case.inputs) if t.dim() and t.shape[0] == count]
    each = sum(case.inputs[place].numel() for place in holders) + sum(t.numel() for t in case.truth)
    taken = min(max(2, most * count // max(each, 1)), count // 2)
    if not holders:
        return None
    first = min(_first_wrong(case), count - taken)
    for chosen in (holders, holders[:1]):
        cut = _cut(case, slice(first, first + taken), chosen)
        if cut is not None:
            return cut
    return None


def _first_wrong(case: Case) -> int:
    """Return the sample with the largest error, so that the fault shows.

    The errors are computed in pieces, since an output may be large.
    """
    count = case.truth[0].shape[0]
    step = max(1, AT_ONCE * count // max(sum(t.numel() for t in case.truth), 1))
    errors = [
        torch.stack([_errors(y[begin : begin + step], t[begin : begin + step])
                     for y, t in zip(case.outputs, case.truth, strict=True)]).amax(0)
        for begin in range(0, count, step)
    ]  # fmt: skip
    return int(torch.cat(errors).argmax())


def _errors(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Return the largest error of each sample."""
    return (y.double() - t.double()).abs().nan_to_num(posinf=1e300).reshape(len(t), -1).amax(1)


def _cut(case: Case, window: slice, chosen: list[int]) -> Case | None:
    parts = [t[window].clone() if place in chosen else t for place, t in enumerate(case.inputs)]
    if sum(t.numel() * torch.float64.itemsize for t in parts) > MOST_BYTES:
        return None
    inputs = [t.double() if t.is_floating_point() else t for t in parts]
    cut = case._replace(
        arguments=inputs,
        inputs=inputs,
        outputs=[y[window].clone() for y in case.outputs],
        truth=[t[window].clone() for t in case.truth],
    )
    try:
        with torch.no_grad():
            alone = tensors(cut.run())
    except FAILING:
        # A cut input may be a table into which another input points.
        return None
    alike = all(
        a.shape == t.shape and torch.allclose(a.double(), t.double(), rtol=SAME, atol=SAME, equal_nan=True)
        for a, t in zip(alone, cut.truth, strict=True)
    )
    return cut if alike else None
