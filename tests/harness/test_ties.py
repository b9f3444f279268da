"""Draws whose ties leave an output open are left out, and no others."""

from pathlib import Path

import pytest
import torch

from agent.harness.truth import ties
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return RESULT


def get_inputs():
    return [torch.randn(40, 50)]


def get_init_inputs():
    return []
"""


def drawn(folder: Path, result: str, family: str | None) -> Draw:
    (folder / "reference.py").write_text(SOURCE.replace("RESULT", result))
    reference = Reference(folder / "reference.py", "cpu")
    reference.perturb(1)
    draw = reference.draw(2, family)
    assert draw is not None
    return draw


def obstacle(folder: Path, result: str, family: str | None) -> str | None:
    return drawn(folder, result, family).expected.obstacle()


@pytest.mark.parametrize("result", [
    "torch.topk(x, 2)[1]",
    "torch.topk(x, 3, dim=0, largest=False)[1]",
    "x.sort(dim=0)[1]",
    "x.argsort(descending=True)",
    "x.kthvalue(20)[1]",
    "x.median(1, keepdim=True)[1]",
    "x.mode(0)[1]",
    "torch.arange(50.0, device=x.device)[torch.topk(x, 2)[1]].to(x.dtype)",
])  # fmt: skip
def test_an_open_choice_among_equal_elements_that_shows(tmp_path: Path, result: str) -> None:
    assert "which of equal elements" in (obstacle(tmp_path, result, "tied") or "")
    assert obstacle(tmp_path, result, None) is None


@pytest.mark.parametrize("result", [
    "torch.topk(x, 2)[0]",
    "x.sort(dim=0)[0]",
    "x.sort(dim=0, stable=True)[1]",
    "x.argsort(stable=True)",
    "x.median(1)[0]",
    "x.argmax(1)",
    "x.max(0)[1]",
])  # fmt: skip
def test_what_ties_leave_no_choice_in_is_judged(tmp_path: Path, result: str) -> None:
    assert obstacle(tmp_path, result, "tied") is None


def test_both_choices_are_right_ones() -> None:
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0], [float("nan"), 0.0, 0.0, 0.0, 1.0]])
    (_, first), (_, last) = ties.chosen_both_ways(lambda: x.topk(2))
    assert (first.tolist(), last.tolist()) == ([[0, 2], [0, 4]], [[4, 2], [0, 4]])
    (values, first), (_, last) = ties.chosen_both_ways(lambda: x.median(1))
    torch.testing.assert_close(values, x.median(1)[0], equal_nan=True, rtol=0, atol=0)
    assert (first.tolist(), last.tolist()) == ([0, 0], [4, 0])


def test_a_wrong_index_on_a_stated_draw_is_refused_and_another_tie_order_is_not(tmp_path: Path) -> None:
    draw = drawn(tmp_path, "torch.topk(x, 2)[1]", None)
    x = draw.inputs[0]
    with ties.Chosen(last=True):
        right = x.topk(2)[1]
    assert "finding" not in draw.expected.compare(right)
    wrong = right.clone()
    wrong[-1, 1] = x[-1].argsort(descending=True)[2]
    assert "finding" in draw.expected.compare(wrong)
    assert "finding" in draw.expected.compare(right.flip(1))
