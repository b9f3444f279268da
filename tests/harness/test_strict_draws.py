"""Draws whose limits are those of torch's own order of sums alone, and the full ones that they lead to."""

from pathlib import Path

import pytest
import torch

from agent.harness.truth.reference import Reference

SUMS = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return BODY


def get_inputs():
    return [torch.randn(128, 300)]


def get_init_inputs():
    return []
"""


def summing(folder: Path, body: str) -> Reference:
    (folder / "reference.py").write_text(SUMS.replace("BODY", body))
    made = Reference(folder / "reference.py", "cpu")
    made.perturb(1)
    return made


def test_a_strict_draw_is_the_same_draw_with_narrower_limits_and_leads_to_the_full_one(
    tmp_path: Path,
) -> None:
    made = summing(tmp_path, "x.softmax(1)")
    first = made.draw(1, strict=True)
    assert first is not None
    assert first.in_full is None  # the first shows what the reference is made of
    for seed, family in ((2, None), (3, "shifted"), (4, "scaled")):
        strict, full = made.draw(seed, family, strict=True), made.draw(seed, family)
        assert strict is not None
        assert full is not None
        assert strict.in_full is not None
        assert strict.family == full.family
        later = strict.in_full()
        for draw in (full, later):
            assert torch.equal(draw.inputs[0], strict.inputs[0])
            assert torch.equal(draw.expected.truth, strict.expected.truth)
        narrow, wide, again = (draw.expected.limits[0] for draw in (strict, full, later))
        assert narrow is not None
        assert wide is not None
        assert again is not None
        assert narrow.absolute <= wide.absolute
        assert (again.absolute, again.rms) == (wide.absolute, wide.rms)


@pytest.mark.parametrize("body", ["x.sum()", "x.topk(3, 1).indices", "x.sort(1).indices"])
def test_few_sums_and_open_choices_are_drawn_in_full_each_time(tmp_path: Path, body: str) -> None:
    made = summing(tmp_path, body)
    for seed in (1, 2):
        draw = made.draw(seed, strict=True)
        assert draw is not None
        assert draw.in_full is None
