"""Gradients have a budget that right ones keep, in whatever order they sum, and wrong ones exceed."""

from pathlib import Path

import pytest
import torch

from agent.harness.truth import gradients
from agent.harness.truth.reference import Reference

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn({shape})]

def get_init_inputs():
    return []
"""
PROBLEMS = {
    "layer_norm": ("self.norm = nn.LayerNorm(96)", "self.norm(x)", "512, 96"),
    "group_norm": ("self.norm = nn.GroupNorm(4, 8)", "self.norm(x)", "16, 8, 30, 30"),
    "linear": ("self.linear = nn.Linear(64, 32)", "torch.relu(self.linear(x))", "256, 64"),
    "softmax": ("pass", "torch.softmax(x, 1)", "64, 300"),
}


def wanted(tmp_path: Path, name: str) -> tuple[Reference, gradients.Gradients, list[torch.Tensor]]:
    """The reference, its gradients for one draw, and these worked out in float64 and rounded."""
    made, body, shape = PROBLEMS[name]
    file = tmp_path / "reference.py"
    file.write_text(SOURCE.format(made=made, body=body, shape=shape))
    reference = Reference(file, "cpu")
    reference.perturb(1)
    draw = reference.draw(2)
    assert draw is not None
    found = gradients.expected(reference, draw, 3)
    return reference, found, [expected.truth.float() for expected in found.expected]


@pytest.mark.parametrize("name", PROBLEMS)
def test_right_gradients_pass(tmp_path: Path, name: str) -> None:
    reference, found, right = wanted(tmp_path, name)
    assert found.names == ["input 0", *dict(reference.model.named_parameters())]
    for answer in (right, [expected.native for expected in found.expected]):
        result = gradients.compare(found, answer)
        assert "finding" not in result
        assert result["ratio"] < 0.5


@pytest.mark.parametrize("name", PROBLEMS)
def test_wrong_ones_are_named(tmp_path: Path, name: str) -> None:
    _, found, right = wanted(tmp_path, name)
    for place, who in enumerate(found.names):
        for wrong in (right[place] * 1.001, right[place].half().float(), torch.zeros_like(right[place])):
            finding = gradients.compare(found, [*right[:place], wrong, *right[place + 1 :]])["finding"]
            assert finding["kind"] == "wrong-gradient"
            assert who in finding["message"]


def test_a_sum_by_single_additions_passes(tmp_path: Path) -> None:
    """As atomics add: one element after the other, in float32."""
    _, found, right = wanted(tmp_path, "layer_norm")
    file = tmp_path / "reference.py"
    reference = Reference(file, "cpu")
    reference.perturb(1)
    draw = reference.draw(2)
    assert draw is not None
    (upstream,) = found.upstream
    assert upstream is not None
    total = torch.zeros(96)
    for row in upstream:
        total += row
    place = found.names.index("norm.bias")
    assert "finding" not in gradients.compare(found, [*right[:place], total, *right[place + 1 :]])


def test_a_gradient_may_be_missing_only_where_it_is_zero(tmp_path: Path) -> None:
    _, found, right = wanted(tmp_path, "linear")
    finding = gradients.compare(found, [None, *right[1:]])["finding"]
    assert finding["kind"] == "missing-gradient"
    assert "input 0" in finding["message"]


def test_a_reference_without_gradients_says_so(tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text(SOURCE.format(made="pass", body="x.argmax(1)", shape="4, 5"))
    reference = Reference(file, "cpu")
    reference.perturb(1)
    draw = reference.draw(2)
    assert draw is not None
    with pytest.raises(gradients.NotDifferentiable, match="no output"):
        gradients.expected(reference, draw, 3)
