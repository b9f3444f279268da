"""Inputs that a problem does not state: which are tried, that the reference takes them, what they hold."""

from pathlib import Path

import pytest
import torch

from agent.harness.truth import input_variants, tolerance
from agent.harness.truth.reference import Reference
from agent.harness.worker import layouts
from agent.records.envelope import Kind

ALL: list[Kind] = ["layout", "batch", "size", "rank", "dtype"]


def reference(tmp_path: Path, body: str, inputs: str, made: str = "", arguments: str = "") -> Reference:
    """A reference whose forward returns `body`; `made` is what its constructor does."""
    source = f"""
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made or "pass"}

    def forward(self, {arguments or "x"}):
        return {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
    file = tmp_path / "reference.py"
    file.write_text(source)
    made_reference = Reference(file, "cpu")
    made_reference.perturb(1)
    return made_reference


def words(found: list[input_variants.Variant], kind: Kind) -> list[str]:
    return [variant.what for variant in found if variant.kind == kind]


def test_an_elementwise_reference_takes_everything(tmp_path: Path) -> None:
    found = input_variants.find_variants(reference(tmp_path, "torch.relu(x)", "torch.randn(8, 6, 5)"), 3, ALL)
    assert words(found, "layout") == ["transposed inputs", "strided inputs", "offset inputs"]
    assert words(found, "batch") == ["batch 1", "batch 9"]
    assert words(found, "size") == ["shape (2, 7, 5)", "shape (2, 6, 7)"]
    assert [len(variant.inputs[0].shape) for variant in found if variant.kind == "rank"] == [2, 1, 4, 5]
    assert words(found, "dtype") == ["float16", "bfloat16", "float64"]


def test_what_the_constructor_fixes_stays(tmp_path: Path) -> None:
    made = "self.norm = nn.GroupNorm(2, 6)"
    found = input_variants.find_variants(
        reference(tmp_path, "self.norm(x)", "torch.randn(8, 6, 5)", made), 3, ALL
    )
    assert words(found, "size") == ["shape (2, 6, 7)"]
    assert all(variant.inputs[0].shape[1] == 6 for variant in found)


def test_tensors_that_share_a_size_change_together(tmp_path: Path) -> None:
    two = reference(tmp_path, "x @ y", "torch.randn(8, 6), torch.randn(6, 5)", arguments="x, y")
    found = input_variants.find_variants(two, 3, ["batch", "size"])
    shapes = [[tuple(tensor.shape) for tensor in variant.inputs] for variant in found]
    assert shapes == [[(1, 6), (6, 5)], [(2, 7), (7, 5)], [(9, 6), (6, 5)]]


def test_integers_keep_their_range_and_dtype(tmp_path: Path) -> None:
    body = "torch.gather(x, 1, index)"
    inputs = "torch.randn(8, 6), torch.randint(6, (8, 3))"
    found = input_variants.find_variants(reference(tmp_path, body, inputs, arguments="x, index"), 3, ALL)
    assert {variant.inputs[1].dtype for variant in found} == {torch.int64}
    assert all(bool((variant.inputs[1] < variant.inputs[0].shape[1]).all()) for variant in found)


def test_a_reference_that_writes_to_its_input_has_no_variants(tmp_path: Path) -> None:
    made = reference(tmp_path, "x.add_(1)", "torch.randn(8, 6)")
    assert input_variants.find_variants(made, 3, ALL) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_truth_of_another_dtype_is_that_of_its_own_parameters(tmp_path: Path, dtype: str) -> None:
    made = reference(tmp_path, "self.linear(x)", "torch.randn(8, 6)", "self.linear = nn.Linear(6, 5)")
    (variant,) = (v for v in input_variants.find_variants(made, 3, ["dtype"]) if v.what == dtype)
    drawn = input_variants.draw(made, variant)
    assert {tensor.dtype for tensor in made.state().values()} == {variant.dtype}
    native = drawn.expected.native
    assert "finding" not in drawn.expected.compare(native)
    assert "finding" in drawn.expected.compare((native.double() * 1.2).to(native.dtype))
    (stated,) = input_variants.find_variants(made, 3, ["batch"])[:1]
    assert {
        tensor.dtype for tensor in tolerance.leaves(input_variants.draw(made, stated).expected.native)
    } == {torch.float32}


@pytest.mark.parametrize("name", list(layouts.LAYOUTS))
def test_a_layout_changes_where_elements_lie_and_nothing_else(name: str) -> None:
    x = torch.randn(2, 3, 4, 5)
    (laid,) = layouts.laid_out([x], name)
    assert torch.equal(laid, x)
    moved = laid.stride() != x.stride() or laid.storage_offset() != x.storage_offset()
    assert moved
    assert layouts.laid_out({"index": 3}, name) == {"index": 3}
