"""A reference's inputs and masks vary by how it uses them."""

from pathlib import Path

import torch

from agent.harness.truth.reference import Reference

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
    def forward(self, {names}):
        return {returned}

def get_inputs():
    return [{drawn}]

def get_init_inputs():
    return []
"""


def reference(
    tmp_path: Path, returned: str, drawn: str, names: str = "x, other", made: str = "pass"
) -> Reference:
    source = tmp_path / "reference.py"
    source.write_text(SOURCE.format(made=made, names=names, returned=returned, drawn=drawn))
    made_of = Reference(source, "cpu")
    made_of.perturb(3)
    return made_of


def test_lengths_reach_their_extremes_where_the_reference_stays_finite(tmp_path: Path) -> None:
    whole = "(x * (torch.arange(20) < other[:, None])).sum(1) / other.clamp(min=1)"
    drawn = "torch.randn(64, 20), torch.full((64,), 20)"
    draw = reference(tmp_path, whole, drawn).draw(5, "ragged")
    assert draw is not None
    assert (int(draw.inputs[1].min()), int(draw.inputs[1].max())) == (0, 20)
    divided = "(x * (torch.arange(20) < other[:, None])).sum(1) / other"
    draw = reference(tmp_path, divided, drawn).draw(5, "ragged")
    assert draw is not None
    assert int(draw.inputs[1].min()) >= 1
    assert draw.expected.obstacle() is None


def test_a_scalar_that_would_change_the_shape_stays_and_is_named(tmp_path: Path) -> None:
    made = reference(tmp_path, "x[:, :other] * 2", "torch.randn(64, 20), 7")
    assert made.draw(5, "redrawn") is None
    assert made.varying.fixed == ["input 1 (int) stays as given: its output has another shape"]


def test_a_family_repeats_by_its_seed(tmp_path: Path) -> None:
    made = reference(tmp_path, "x.masked_fill(~other, -1e9).softmax(1)",
                     "torch.randn(24, 24), torch.tril(torch.ones(24, 24, dtype=torch.bool))")  # fmt: skip
    for family in ("redrawn", "ragged", "mixed"):
        first, again = made.inputs(9, family), made.inputs(9, family)
        assert first is not None and again is not None  # noqa: PT018
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_a_family_derives_does_not_change_the_reference(tmp_path: Path) -> None:
    made = reference(tmp_path, "self.count.add_(1) * x", "torch.randn(8, 9)", "x",
                     "self.register_buffer('count', torch.zeros(()))")  # fmt: skip
    before = made.model.count.clone()
    made.inputs(9, "edges")
    made.inputs(9, "redrawn")
    assert torch.equal(made.model.count, before)


def test_a_mask_among_the_buffers_is_drawn_anew_unless_positions_make_it(tmp_path: Path) -> None:
    keep = "self.register_buffer('keep', torch.ones(40, dtype=torch.bool))"
    made = reference(tmp_path, "x * self.keep", "torch.randn(8, 40)", "x", keep)
    assert not bool(made.model.keep.all())
    causal = "self.register_buffer('keep', torch.tril(torch.ones(40, 40)))"
    made = reference(tmp_path, "x * self.keep", "torch.randn(40, 40)", "x", causal)
    assert torch.equal(made.model.keep, torch.tril(torch.ones(40, 40)))
