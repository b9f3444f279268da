"""The comparator: planted errors are caught, native-sized ones pass, each classified exactly."""

import pytest
import torch

from agent.harness.truth import tolerance

INF = float("inf")


def reference(shape: tuple[int, ...] = (64, 96), scale: float = 1.0) -> tuple[torch.Tensor, ...]:
    """Two native float32 outputs and their float64 truth, a few ulp apart; the first element is zero."""
    generator = torch.Generator().manual_seed(7)
    truth = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    truth[(0,) * len(shape)] = 0
    ulp = torch.finfo(torch.float32).eps * truth.abs()
    runs = [
        (truth + 2 * ulp * torch.randn(shape, generator=generator, dtype=torch.float64)).float()
        for _ in range(2)
    ]
    return *runs, truth


def verdict(y: torch.Tensor, native: torch.Tensor, truth: torch.Tensor) -> str:
    result = tolerance.Expected(native, native, truth).compare(y)
    return str(result["finding"]["kind"]) if "finding" in result else "accepted"


def test_the_native_result_and_a_few_ulp_pass() -> None:
    native, other, truth = reference()
    assert verdict(native, native, truth) == "accepted"
    assert verdict(other, native, truth) == "accepted"
    assert verdict(truth.float(), native, truth) == "accepted"
    one_up = torch.nextafter(native, torch.tensor(10.0))
    assert verdict(torch.nextafter(one_up, torch.tensor(10.0)), native, truth) == "accepted"


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e6])
def test_planted_errors_are_found_at_any_scale(scale: float) -> None:
    native, _, truth = reference(scale=scale)
    one = native.clone()
    one[17, 5] += 0.01 * scale
    tail = native.clone()
    tail[-1, -32:] = 0
    assert verdict(one, native, truth) == "wrong-values"
    assert verdict(tail, native, truth) == "wrong-values"
    assert verdict(torch.zeros_like(native), native, truth) == "constant-output"
    assert verdict(native * (1 + 1e-3), native, truth) == "wrong-values"
    assert verdict(native.reshape(96, 64).t().contiguous(), native, truth) == "wrong-values"


def test_short_types_in_between_are_found() -> None:
    native, _, truth = reference()
    assert verdict(native.bfloat16().float(), native, truth) == "wrong-values"
    assert verdict(native.half().float(), native, truth) == "wrong-values"


@pytest.mark.parametrize(("errors", "expected"), [(1, "accepted"), (15, "accepted"), (20, "wrong-values")])
def test_a_single_element_may_be_off_by_sixteen_native_errors(errors: int, expected: str) -> None:
    """Planted where the truth is zero: the relative term gives nothing there."""
    native, _, truth = reference()
    y = native.clone()
    y[0, 0] = errors * float((native - truth).abs().max())
    assert verdict(y, native, truth) == expected


def test_errors_of_less_precision_add_up() -> None:
    native, _, truth = reference()
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    worst = float((native - truth).abs().max())
    y = (truth + worst * noise.clamp(-2, 2) * 3).float()
    assert verdict(y, native, truth) == "precision-loss"


def test_the_worse_of_two_summation_orders_is_the_yardstick() -> None:
    native, _, truth = reference()
    y = native.clone()
    y[0, 0] = 20 * float((native - truth).abs().max())
    coarse = truth + 3 * (native - truth)
    assert "finding" in tolerance.Expected(native, native, truth).compare(y)
    expected = tolerance.Expected(native, coarse.float(), truth)
    assert "finding" not in expected.compare(y)
    assert expected.native_error == pytest.approx(float((coarse.float() - truth).abs().max()))


def test_the_place_of_a_mismatch_is_said() -> None:
    native, other, truth = reference()
    wrong = native.clone()
    wrong[:, 90:] = 5
    finding = tolerance.Expected(native, other, truth).compare(wrong)["finding"]
    assert "dim 1 only 90..95" in finding["message"]
    assert "first at (0, 90)" in finding["message"]
    assert "got 5" in finding["evidence"]


def test_nan_never_passes_and_expected_infinities_do() -> None:
    native, _, truth = reference()
    broken = native.clone()
    broken[3, 4] = float("nan")
    assert verdict(broken, native, truth) == "nan-output"
    native[0, 0] = truth[0, 0] = -INF
    assert verdict(native.clone(), native, truth) == "accepted"
    flipped = native.clone()
    flipped[0, 0] = INF
    assert verdict(flipped, native, truth) == "non-finite-output"
    flipped[0, 0] = -3e38
    assert verdict(flipped, native, truth) == "non-finite-output"


def test_integers_must_be_equal() -> None:
    native = torch.arange(12).reshape(3, 4)
    wrong = native.clone()
    wrong[2, 1] = 0
    assert verdict(native.clone(), native, native) == "accepted"
    assert verdict(wrong, native, native) == "wrong-values"


def test_an_output_without_elements_passes() -> None:
    empty = torch.empty(0, 4)
    assert verdict(empty, empty, empty.double()) == "accepted"


@pytest.mark.parametrize(
    ("tree", "specs", "kind"),
    [
        (["tensor", 0], [([64, 96], "float32")], None),
        (["tensor", 0], [([96, 64], "float32")], "wrong-shape"),
        (["tensor", 0], [([64, 1], "float32")], "wrong-shape"),
        (["tensor", 0], [([1, 64, 96], "float32")], "wrong-shape"),
        (["tensor", 0], [([64, 96], "float16")], "wrong-dtype"),
        (["tuple", [["tensor", 0]]], [([64, 96], "float32")], "wrong-structure"),
        (["value", None], [], "wrong-structure"),
    ],
)
def test_structure_comes_before_values(
    tree: list[object], specs: list[tuple[list[int], str]], kind: str | None
) -> None:
    native, other, truth = reference()
    tensors = [{"shape": shape, "dtype": dtype} for shape, dtype in specs]
    finding = tolerance.Expected(native, other, truth).structure({"tree": tree, "tensors": tensors})
    assert (finding.kind if finding else None) == kind


def test_derived_inputs_that_break_the_reference_are_named() -> None:
    native, other, truth = reference()
    assert tolerance.Expected(native, other, truth).obstacle() is None
    assert "is off by" in (tolerance.Expected(native, other, truth * 1.01).obstacle() or "")
    native[1, 1] = INF
    assert tolerance.Expected(native, other, truth).obstacle() == "the float32 reference is not finite"
    chosen = torch.tensor([3, 1])
    moved = tolerance.Expected(chosen, torch.tensor([2, 1]), chosen)
    assert "must be equal" in (moved.obstacle() or "")


def test_two_outputs_are_compared_by_the_same_budget() -> None:
    native, other, truth = reference()
    expected = tolerance.Expected(native, other, truth)
    assert not expected.differs(native, other)
    far = native.clone()
    far[5, 5] += 1e-3
    assert expected.differs(native, far)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_rounding_to_a_short_type_is_no_obstacle_to_a_derived_draw(kind: torch.dtype) -> None:
    _, _, truth = reference()
    rounded = truth.to(kind)
    assert tolerance.Expected(rounded, rounded, truth).obstacle() is None
    off = (truth * (1 + 40 * torch.finfo(kind).eps)).to(kind)
    assert "itself is off" in (tolerance.Expected(off, off, truth).obstacle() or "")


def test_a_float32_reference_may_miss_by_no_more_than_before() -> None:
    native, _, truth = reference()
    off = (truth * 1.001).float()
    assert "itself is off" in (tolerance.Expected(off, off, truth).obstacle() or "")
    assert tolerance.Expected(native, native, truth).obstacle() is None


def test_without_the_native_numbers_the_verdict_is_the_same() -> None:
    native, other, truth = reference()
    nan, far = native.clone(), native.clone()
    nan[3, 4], far[5, 6] = float("nan"), far[5, 6] + 1
    whole, lean = (tolerance.Expected(native, other, truth) for _ in range(2))
    lean.lean()
    assert lean.native.untyped_storage().nbytes() < native.numel()
    assert (lean.native.shape, lean.native.dtype) == (native.shape, native.dtype)
    for y in (native, nan, far, torch.zeros_like(native)):
        one, same = (expected.compare(y).get("finding", {}) for expected in (whole, lean))
        assert one.get("kind") == same.get("kind")
        assert whole.accepts([y]) == lean.accepts([y]) == (not one)
        places = [found if found is None else found[1].sum() for found in (whole.wrong(y), lean.wrong(y))]
        assert places[0] == places[1]


def test_a_native_run_that_is_not_finite_is_kept() -> None:
    native, other, truth = reference()
    for tensor in (native, other, truth):
        tensor[0, 1] = INF
    expected = tolerance.Expected(native, other, truth)
    expected.lean()
    assert expected.native is native
    assert expected.accepts([native])
    assert not expected.accepts([native.nan_to_num()])
