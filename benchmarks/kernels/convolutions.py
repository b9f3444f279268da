"""Convolutions on the present GPU: errors and times of conv_fp32x3 beside torch's.

    python -m benchmarks.kernels.convolutions convolution_errors tuned kernels > convolutions.jsonl

A line for each case, as in `products`. Nothing here runs without a GPU.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from agent.kernels.conv_fp32x3.product import convolved, is_worth
from agent.kernels.conv_fp32x3.window import Window
from benchmarks.kernels.convolution_shapes import FUSED, HELD_BACK, KERNELBENCH, NETWORKS, Shape, back
from benchmarks.kernels.drawn import FAMILIES, OF_IMAGES, Family
from benchmarks.kernels.parts import run, spans

Call = Callable[[torch.Tensor], torch.Tensor]
DEPTHS = (
    Shape("27", (4, 3, 56, 56), 64, (3, 3), {"padding": 1}), Shape("64", (4, 64, 28, 28), 128, (1, 1)),
    Shape("147", (4, 3, 112, 112), 64, (7, 7), {"stride": 2, "padding": 3}),
    Shape("192", (8, 64, 1024), 128, (3,)),
    Shape("288", (8, 32, 28, 28), 128, (3, 3), {"padding": 1}),
    Shape("432 in 3 dimensions", (2, 16, 12, 16, 16), 64, (3, 3, 3), {"padding": 1}),
    Shape("512", (8, 512, 14, 14), 128, (1, 1)), Shape("576", (8, 64, 28, 28), 128, (3, 3), {"padding": 1}),
    back("576 transposed", (4, 64, 28, 28), 64, (3, 3), padding=1),
    Shape("1152", (8, 128, 28, 28), 128, (3, 3), {"padding": 1}),
    Shape("4608", (8, 512, 14, 14), 128, (3, 3), {"padding": 1}),
)  # fmt: skip
"""By the depth of their products: channels times taps."""
SETS = {"held back": HELD_BACK, "networks": NETWORKS, "KernelBench": KERNELBENCH, "fused": FUSED}


def drawn(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """x as KernelBench draws it, the weight as torch begins it."""
    bound = (shape.weight[1] * torch.Size(shape.size).numel()) ** -0.5
    return torch.rand(shape.x, device="cuda"), (torch.rand(shape.weight, device="cuda") * 2 - 1) * bound


def times() -> Iterator[dict[str, object]]:
    """Of both sides, in ms, and their errors on the first image."""
    for name, shapes in SETS.items():
        for shape in shapes:
            yield {"set": name, **timed(shape)}
            torch.cuda.empty_cache()


def timed(shape: Shape) -> dict[str, object]:
    """One of `times`."""
    x, weight = drawn(shape)
    sides: dict[str, Call] = {
        "ours": lambda x: convolved(x, weight, None, shape.window, "fp32x3"),
        "torch": lambda x: torch.convolution(x, weight, None, *shape.window),
    }
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
        reach = (shape.size[0] - 1) * shape.window.dilation[0] + 1
        first = x[:1, :, : max(64, 2 * reach)]
        truth = torch.convolution(first.double(), weight.double(), None, *shape.window)
        rms = [float((side(first).double() - truth).square().mean().sqrt()) for side in sides.values()]
    rounds = 9 if x.numel() < 1 << 25 else 3
    ms = spans({name: partial(side, x) for name, side in sides.items()}, rounds)
    return {
        "name": shape.name, "ours_ms": ms["ours"], "torch_ms": ms["torch"], "speed": ms["torch"] / ms["ours"],
        "rms": rms[0], "torch_rms": rms[1], "taken": is_worth(x, weight, shape.window),
    }  # fmt: skip


def convolution_errors() -> Iterator[dict[str, Any]]:
    """Root mean square errors; beside them those of an SGEMM over the unfolded image, and of cuDNN."""
    for draw in (*FAMILIES, *OF_IMAGES):
        for shape in DEPTHS:
            if draw in OF_IMAGES and len(shape.size) == 1:
                continue
            torch.manual_seed(len(shape.name))
            x, weight = drawn_as(draw, shape)
            truth = torch.convolution(x.double(), weight.double(), None, *shape.window)
            rms = {
                name: float((side(x, weight, shape.window).double() - truth).square().mean().sqrt())
                for name, side in SIDES.items()
            }
            yield {"family": draw.__name__, "shape": shape.name, **rms}


def drawn_as(draw: Family, shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """x and the weight; of a transposed one its first axis is the channels."""
    if not shape.transposed:
        return draw(shape.x, shape.weight)
    channels, features, *size = shape.weight
    x, weight = draw(shape.x, (features, channels, *size))
    return x, weight.transpose(0, 1).contiguous()


def by_sgemm(x: torch.Tensor, weight: torch.Tensor, window: Window) -> torch.Tensor:
    """torch's convolution as it is without cuDNN: the image unfolded, and SGEMM."""
    with torch.backends.cudnn.flags(enabled=False):
        return torch.convolution(x, weight, None, *window)


SIDES: dict[str, Callable[[torch.Tensor, torch.Tensor, Window], torch.Tensor]] = {
    "fp32x3": lambda x, weight, window: convolved(x, weight, None, window, "fp32x3"),
    "sgemm": by_sgemm,
    "cudnn": lambda x, weight, window: torch.convolution(x, weight, None, *window),
}


def kernels() -> Iterator[dict[str, object]]:
    """What each kernel of a call takes, in us."""
    for shape in (*(KERNELBENCH[i] for i in (2, 4, 7, 12, 13)), NETWORKS[1], NETWORKS[3]):
        x, weight = drawn(shape)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(2):
                convolved(x, weight, None, shape.window, "fp32x3")
            torch.cuda.synchronize()
        taken = {e.key[:60]: e.self_device_time_total / e.count for e in profile.key_averages()}
        yield {"name": shape.name, "us": {name: round(span, 1) for name, span in taken.items() if span}}
        del x, weight


def tuned() -> Iterator[dict[str, object]]:
    """`times`, where cuDNN has tried every algorithm it has."""
    torch.backends.cudnn.benchmark = True
    yield from times()
    torch.backends.cudnn.benchmark = False


def main() -> None:
    """The parts named by the arguments."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    parts = {
        "times": times, "kernels": kernels, "tuned": tuned, "convolution_errors": convolution_errors
    }  # fmt: skip
    run(parts, sys.argv[1:])


if __name__ == "__main__":
    main()
