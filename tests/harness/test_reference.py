"""What the oracle draws follows from its seeds, whatever a reference does with seeds of its own."""

from pathlib import Path

import pytest
import torch

from agent.harness.reference import VARIED, Reference

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, mask, n):
        return x


def get_inputs():
    LINE
    return [torch.randn(5, 8), torch.tensor([[0.0, float("-inf")]]), 3]


def get_init_inputs():
    return []
"""


def reference(folder: Path, line: str) -> Reference:
    (folder / "reference.py").write_text(SOURCE.replace("LINE", line))
    return Reference(folder / "reference.py", "cpu")


@pytest.mark.parametrize("line", ["pass", "torch.manual_seed(42)"])
def test_other_seeds_give_other_inputs_and_the_same_seed_the_same(tmp_path: Path, line: str) -> None:
    drawn = reference(tmp_path, line)
    one, other, again = (drawn.inputs(seed, None) or [] for seed in (1, 2, 1))
    assert torch.equal(one[0], again[0])
    assert not bool((one[0] == other[0]).all(1).any())


def test_fixed_inputs_lose_little_and_keep_signs_zeros_and_infinities(tmp_path: Path) -> None:
    torch.manual_seed(42)
    x = torch.randn(5, 8)
    found, mask, number = reference(tmp_path, "torch.manual_seed(42)").inputs(1, None) or []
    share = found / x
    assert bool(((share <= 1) & (share >= 1 - 1.01 * VARIED)).all())
    assert mask.tolist() == [[0.0, float("-inf")]]
    assert number == 3


def test_inputs_that_change_with_the_seed_are_as_drawn(tmp_path: Path) -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 8)
    found, *_ = reference(tmp_path, "pass").inputs(1, None) or []
    assert torch.equal(found, x)
