"""Limits follow the size of rows and columns; homogeneous outputs have one for all."""

import pytest
import torch

from agent.harness.truth.limits import Limits

GENERATOR = torch.Generator().manual_seed(5)


def limits_of(truth: torch.Tensor, share: float = 1e-7) -> Limits:
    def run() -> torch.Tensor:
        return (truth * (1 + share * torch.randn(truth.shape, generator=GENERATOR).double())).float()

    first, second = run(), run()
    return Limits(first, second, second, truth)


def test_small_rows_have_small_limits() -> None:
    truth = torch.randn(40, 64, generator=GENERATOR).double() * 2.0 ** -torch.arange(40)[:, None]
    limits = limits_of(truth)
    halved = truth.half().float()
    halved[:20] = truth[:20].float()
    assert bool(limits.exceeded(halved, truth)[20:24].any())
    assert not bool(limits.exceeded(truth.float(), truth).any())


def test_small_columns_have_small_limits() -> None:
    truth = torch.randn(500, 1, generator=GENERATOR).double() * torch.tensor([1.0, 4096.0])
    limits = limits_of(truth)
    wrong = truth.float()
    wrong[:, 0] = truth[:, 0].half().float()
    assert bool(limits.exceeded(wrong, truth)[:, 0].any())


def test_rows_of_one_size_have_the_common_limit() -> None:
    assert limits_of(torch.randn(40, 64, generator=GENERATOR).double()).local is None


def test_an_error_that_does_not_shrink_with_its_row_is_allowed() -> None:
    truth = torch.randn(40, 64, generator=GENERATOR).double() * 2.0 ** -torch.arange(40)[:, None]
    noise = 1e-7 * torch.randn(3, 40, 64, generator=GENERATOR).double()
    runs = [(truth + part).float() for part in noise]
    limits = Limits(runs[0], runs[1], runs[1], truth)
    assert not bool(limits.exceeded(runs[2], truth).any())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_to_a_short_dtype_is_right_and_a_shorter_one_wrong(dtype: torch.dtype) -> None:
    truth = torch.randn(64, 64, generator=GENERATOR).double()
    y = truth.to(dtype)
    limits = Limits(y, y, y, truth)
    error = (y.double() - truth).square().mean().sqrt()
    assert float(error) <= limits.rms
    coarse = truth * (1 + 2 * torch.finfo(dtype).eps * torch.randn(64, 64, generator=GENERATOR).double())
    assert float((coarse - truth).square().mean().sqrt()) > limits.rms


def test_least_numbers_may_be_zero() -> None:
    truth = torch.full((64, 64), 1e-39, dtype=torch.float64)
    y = truth.float()
    assert not bool(Limits(y, y, y, truth).exceeded(torch.zeros_like(y), truth).any())
