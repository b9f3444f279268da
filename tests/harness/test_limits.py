"""Errors told in few passes are those of the exact way, piece by piece, or are left to it."""

import pytest
import torch

from agent.harness.truth import limits

ROWS, WIDTH = 40, 32


def drawn(zero_rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The truth, torch's own float32 of it, and an output that is a little further off."""
    torch.manual_seed(0)
    truth = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    truth[:zero_rows] = 0
    native = truth.float()
    return truth, native, native * (1 + 3e-7 * torch.randn(ROWS, WIDTH))


@pytest.fixture(params=[8 * WIDTH, 1 << 22], ids=["many pieces", "one piece"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHUNK", request.param)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("zero_rows", [0, 8, 12])
def test_few_passes_tell_what_the_exact_way_tells(zero_rows: int) -> None:
    truth, native, output = drawn(zero_rows)
    found = limits.Limits(native, native + 1e-7, native + 1e-7, truth)
    quick, (exact, outside) = (
        limits.told(output, truth, found),
        limits.distances(output, truth, found),
    )
    assert quick is not None
    assert not outside
    assert quick[0] == {name: pytest.approx(value, rel=1e-4) for name, value in exact.items()}


@pytest.mark.usefixtures("pieces")
def test_sizes_are_those_of_the_exact_way(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, native, _ = drawn(8)
    quick = limits.Limits(native, native + 1e-6, native + 1e-6, truth)
    monkeypatch.setattr(limits, "_sizes_at_once", lambda norms: None)
    exact = limits.Limits(native, native + 1e-6, native + 1e-6, truth)
    assert quick.largest == pytest.approx(exact.largest, rel=1e-12)
    assert (quick.rms, quick.spread) == (pytest.approx(exact.rms), pytest.approx(exact.spread))
    assert quick.is_finite
    assert exact.is_finite


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1.0])
def test_what_is_wrong_in_one_place_is_left_to_the_exact_way(wrong: float) -> None:
    truth, native, output = drawn(0)
    found = limits.Limits(native, native + 1e-7, native + 1e-7, truth)
    output[ROWS - 1, WIDTH - 1] += wrong
    assert limits.told(output, truth, found) is None
