"""The comparator: planted errors are caught, native-sized ones pass."""

import pytest
import torch

from agent.harness import budget


def reference(shape: tuple[int, ...] = (64, 96), scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """A native float32 output and its float64 truth, a few ulp apart."""
    generator = torch.Generator().manual_seed(7)
    truth = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    ulp = torch.finfo(torch.float32).eps * truth.abs()
    native = (truth + 2 * ulp * torch.randn(shape, generator=generator, dtype=torch.float64)).float()
    return native, truth


def verdict(y: torch.Tensor, native: torch.Tensor, truth: torch.Tensor) -> str:
    result = budget.compare(y, native, truth, summands=1)
    return str(result["finding"]["kind"]) if "finding" in result else "accepted"


def test_the_native_result_and_a_few_ulp_pass() -> None:
    native, truth = reference()
    assert verdict(native, native, truth) == "accepted"
    assert verdict(truth.float(), native, truth) == "accepted"
    assert verdict(torch.nextafter(native, torch.tensor(10.0)), native, truth) == "accepted"


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_planted_errors_are_found_at_any_scale(scale: float) -> None:
    native, truth = reference(scale=scale)
    one = native.clone()
    one[17, 5] += 0.01 * scale
    tail = native.clone()
    tail[-1, -32:] = 0
    assert verdict(one, native, truth) == "wrong-values"
    assert verdict(tail, native, truth) == "wrong-values"
    assert verdict(torch.zeros_like(native), native, truth) == "constant-output"
    assert verdict(native.bfloat16().float(), native, truth) in ("wrong-values", "precision-loss")
    assert verdict(native * (1 + 1e-3), native, truth) == "wrong-values"


def test_the_place_of_a_mismatch_is_said() -> None:
    native, truth = reference()
    wrong = native.clone()
    wrong[:, 90:] = 5
    finding = budget.compare(wrong, native, truth, summands=1)["finding"]
    assert "dim 1 only 90..95" in finding["message"]
    assert "first at (0, 90)" in finding["message"]
    assert "got 5" in finding["evidence"]


def test_nan_never_passes_and_expected_infinities_do() -> None:
    native, truth = reference()
    broken = native.clone()
    broken[3, 4] = float("nan")
    assert verdict(broken, native, truth) == "nan-output"
    native[0, 0] = truth[0, 0] = float("-inf")
    assert verdict(native.clone(), native, truth) == "accepted"
    flipped = native.clone()
    flipped[0, 0] = float("inf")
    assert verdict(flipped, native, truth) == "non-finite-output"


def test_integers_must_be_equal() -> None:
    native = torch.arange(12).reshape(3, 4)
    wrong = native.clone()
    wrong[2, 1] = 0
    assert verdict(native.clone(), native, native) == "accepted"
    assert verdict(wrong, native, native) == "wrong-values"


@pytest.mark.parametrize(
    ("tree", "specs", "kind"),
    [
        (["tensor", 0], [([64, 96], "float32")], None),
        (["tensor", 0], [([96, 64], "float32")], "wrong-shape"),
        (["tensor", 0], [([64, 96], "float16")], "wrong-dtype"),
        (["tuple", [["tensor", 0]]], [([64, 96], "float32")], "wrong-structure"),
        (["value", None], [], "wrong-structure"),
    ],
)
def test_structure_comes_before_values(
    tree: list[object], specs: list[tuple[list[int], str]], kind: str | None
) -> None:
    native, _ = reference()
    tensors = [{"shape": shape, "dtype": dtype} for shape, dtype in specs]
    finding = budget.structure({"tree": tree, "tensors": tensors}, native)
    assert (finding.kind if finding else None) == kind
