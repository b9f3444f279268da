"""Outputs that are right except for their numbering or for a part that was never written."""

import math
from collections.abc import Iterator
from functools import partial

import torch

from agent.diagnosis.mismatch import mismatch_location
from agent.diagnosis.mismatch.case import Case, Hypothesis, Tensor
from agent.diagnosis.wrong_references import Facts

LEAST = 2
"""Minimum number of elements that are called never written."""
ELSEWHERE = 1e-3
"""Relative error above which other elements are wrong beyond rounding."""


def propose_renumbered(case: Case) -> Iterator[Hypothesis]:
    for place, (y, t) in enumerate(zip(case.outputs, case.truth, strict=True)):
        if y.shape != t.shape or t.dtype is torch.bool or not t.numel():
            continue
        if t.is_floating_point():
            yield from _never_written(case, place)
        else:
            yield from _counted_from_afar(case, place)
            yield from _flattened(case, place)


def _never_written(case: Case, place: int) -> Iterator[Hypothesis]:
    """Yield the hypothesis that a region of zeros beside other errors was never written."""
    y, t = case.outputs[place], case.truth[place]
    lost = (y == 0) & (t != 0)
    if not LEAST <= int(lost.sum()) < lost.numel():
        return
    if not bool((~lost & ((y - t).abs() > ELSEWHERE * t.abs())).any()):
        # If no other element is wrong, the region is reported without a wrong reference.
        return
    pattern = next(mismatch_location.patterns(lost, Facts.of(case.source).blocks()), None)
    if pattern is None or pattern.kind is None or bool((y == 0)[~lost].all()):
        return

    def then(outputs: list[Tensor]) -> list[Tensor]:
        return [u.masked_fill(lost, 0.0) if k == place else u for k, u in enumerate(outputs)]

    words = f"with zeros, as if never written, {pattern.words} (the last or other elements are lost)"
    yield Hypothesis(pattern.kind, words, lambda: then(case.truth), 2, r"<<<", {}, {}, then)


def _put(case: Case, place: int, value: Tensor) -> list[Tensor]:
    return [value if k == place else u for k, u in enumerate(case.truth)]


def _counted_from_afar(case: Case, place: int) -> Iterator[Hypothesis]:
    """Yield hypotheses with indices that count from the tensor's start instead of restarting in each part."""
    y, t = case.outputs[place], case.truth[place]
    for dims in range(1, t.dim()):
        parts = math.prod(t.shape[:dims])
        more = (y - t).reshape(parts, -1)
        step = int(more[1, 0]) if parts > 1 and more.shape[1] else 0
        number = torch.arange(parts, device=t.device)
        if step and bool((more == (number * step)[:, None]).all()):
            words = f"with {step} more in each part along dims 0..{dims - 1} of output {place}: its indices "
            words += "count from the start of the whole tensor, not of the part (plane)"
            values = _put(case, place, t + more.reshape(t.shape))
            yield Hypothesis("wrong-index-base", words, partial(list, values), 1, r"\[.*\] =")


def _flattened(case: Case, place: int) -> Iterator[Hypothesis]:
    """Yield hypotheses with flat indices in the tensor or sample instead of indices along one dimension."""
    t = case.truth[place]
    for number, x in enumerate(case.inputs):
        for dim in range(x.dim()):
            kept = [size for axis, size in enumerate(x.shape) if axis != dim]
            if math.prod(kept) != t.numel() or x.shape[dim] < 2:
                continue
            grid = torch.meshgrid(*[torch.arange(size) for size in kept], indexing="ij") if kept else ()
            rest = iter(grid)
            at = [t.reshape(kept) if axis == dim else next(rest) for axis in range(x.dim())]
            for first, said in ((0, "whole tensor"), (1, "sample")):
                strides = [math.prod(x.shape[axis + 1 :]) for axis in range(x.dim())]
                flat = sum(
                    (at[axis] * strides[axis] for axis in range(first, x.dim())),
                    torch.zeros_like(t.reshape(kept)),
                )
                words = (
                    f"with the flat index in the {said} of input {number} for that along dim {dim}: flattened"
                )
                values = _put(case, place, flat.reshape(t.shape))
                yield Hypothesis("wrong-index-base", words, partial(list, values), 1, r"\[.*\] =")
