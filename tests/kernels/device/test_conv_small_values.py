"""conv_fp32x3 where small values count beside large ones that meet zeros, on the emulator."""

from collections.abc import Callable

import pytest
import torch
from kernels.device.test_conv_fp32x3 import convolved, draw
from kernels.device.test_conv_fp32x3 import emulated as emulated

from agent.kernels.conv_fp32x3.window import Window

PLAIN = Window((1, 1), (1, 1), (1, 1))
WINDOWS = {
    "3x3": ((1, 16, 9, 11), (40, 16, 3, 3), PLAIN),
    "many features": ((1, 8, 6, 7), (140, 8, 3, 3), PLAIN),
    "1x1, deep": ((1, 600, 5, 6), (40, 600, 1, 1), Window((1, 1), (0, 0), (1, 1))),
    "in groups": ((1, 32, 6, 7), (20, 16, 3, 3), Window((1, 1), (1, 1), (1, 1), groups=2)),
    "strided": ((2, 16, 13), (24, 16, 5), Window((2,), (2,), (1,))),
    "transposed": ((1, 16, 5, 6), (16, 24, 3, 3), Window((2, 1), (1, 0), (1, 1), True, (1, 0))),
}


def masked(
    x_shape: tuple[int, ...], weight_shape: tuple[int, ...], size: float, window: Window, in_weight: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every eighth channel of one is large, and meets zeros of the other."""
    x, weight = draw(61, *x_shape), draw(62, *weight_shape)
    of_x, of_weight = (size, 0.0) if not in_weight else (0.0, size)
    x[:, ::8] *= of_x
    if window.transposed:
        weight[::8] *= of_weight
    else:
        weight[:, ::8] *= of_weight
    return x, weight


def rms_over_floats(y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, window: Window) -> float:
    """The root mean square error over that of float sums in the order of (channel, tap)."""
    whole = window._replace(output_padding=window.output_padding or (0,) * len(window.stride))
    truth = torch.convolution(x.double(), weight.double(), None, *whole)
    floats = convolved(x, weight, None, window, "ieee")
    return float(((y - truth).square().mean() / (floats - truth).square().mean()).sqrt())


@pytest.mark.parametrize("precision", ["fp32x3", "streamed"])
@pytest.mark.parametrize("in_weight", [False, True], ids=["in x", "in the weight"])
@pytest.mark.parametrize("size", [2.0**20, 2.0**100], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_large_values_that_meet_zeros_cost_the_others_nothing(
    name: str, size: float, in_weight: bool, precision: str
) -> None:
    x_shape, weight_shape, window = WINDOWS[name]
    x, weight = masked(x_shape, weight_shape, size, window, in_weight)
    bias = draw(63, weight_shape[1] * window.groups if window.transposed else weight_shape[0])
    assert rms_over_floats(convolved(x, weight, None, window, precision), x, weight, window) < 2
    moved = convolved(x, weight, bias, window, precision) - convolved(x, weight, None, window, precision)
    assert float((moved - bias.view(-1, *(1,) * (x.dim() - 2))).abs().max()) < 1e-4


@pytest.mark.parametrize("precision", ["fp32x3", "streamed"])
@pytest.mark.parametrize(("of_x", "of_weight"), [(0.1, 0.1), (1.0, 0.01), (0.01, 1.0), (0.5, 0.03)])
@pytest.mark.parametrize("name", WINDOWS)
def test_sums_of_few_products_keep_to_the_errors_of_floats(
    name: str, of_x: float, of_weight: float, precision: str
) -> None:
    x_shape, weight_shape, window = WINDOWS[name]
    x, weight = draw(73, *x_shape), draw(74, *weight_shape)
    x[torch.rand(x.shape, generator=torch.manual_seed(75)) > of_x] = 0
    weight[torch.rand(weight.shape, generator=torch.manual_seed(76)) > of_weight] = 0
    assert rms_over_floats(convolved(x, weight, None, window, precision), x, weight, window) < 2


def test_a_few_pixels_among_many_are_found() -> None:
    """One pixel of an image has large values, which meet zeros of the weight."""
    x, weight = draw(64, 1, 16, 9, 11), draw(65, 40, 16, 3, 3)
    x[:, 5, 4, 6] = 2.0**40
    weight[:, 5] = 0
    y = convolved(x, weight, None, PLAIN)
    of_these = (slice(None), slice(None), slice(3, 6), slice(5, 8))
    truth = torch.conv2d(x.double(), weight.double(), padding=1)
    floats = convolved(x, weight, None, PLAIN, "ieee")
    ours, theirs = ((v - truth)[of_these].square().mean().sqrt() for v in (y, floats))
    assert float(ours / theirs) < 2


def rectified(x: torch.Tensor) -> torch.Tensor:
    return x.clamp_min(0)


def bordered(x: torch.Tensor) -> torch.Tensor:
    x[..., 2:-2, 2:-2] = 0
    return x


def spotted(x: torch.Tensor) -> torch.Tensor:
    return torch.where(draw(66, *x.shape) > 2.5, x * 2.0**20, x)


def flat(x: torch.Tensor) -> torch.Tensor:
    return 0 * x + 1


ORDINARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": torch.clone, "positive": torch.abs, "rectified": rectified, "bordered": bordered,
    "whole numbers": torch.round,
}  # fmt: skip


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_images_are_not_looked_at_twice(kind: str) -> None:
    x, weight = ORDINARY[kind](draw(67, 1, 16, 9, 11)), draw(68, 40, 16, 3, 3)
    assert convolved(x, weight, None, PLAIN, "never twice").isfinite().all()
    x[:, ::8] = 2.0**20
    weight[:, ::8] = 0
    assert not convolved(x, weight, None, PLAIN, "never twice").isfinite().all()


def test_sums_that_cancel_are_not_computed_anew() -> None:
    """An image without edges, under filters whose values add up to nothing."""
    x, weight = flat(draw(69, 1, 16, 9, 11)), draw(70, 40, 16, 3, 3)
    weight -= weight.mean((1, 2, 3), keepdim=True)
    assert not convolved(x, weight, None, PLAIN, "never twice").isfinite().all()
    assert convolved(x, weight, None, PLAIN, "never anew").isfinite().all()
    x, weight = spotted(draw(71, 1, 16, 9, 11)), torch.where(draw(72, 40, 16, 3, 3) > 1.5, 1.0, 0.0)
    assert not convolved(x, weight, None, PLAIN, "never anew").isfinite().all()
