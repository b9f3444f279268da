"""Convolutions on the present GPU: errors and times of conv_fp32x3 beside torch's.

    python -m benchmarks.kernels.convolutions windows tuned kernels > convolutions.jsonl

A line for each case, as in `products`. Nothing here runs without a GPU.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch

from agent.kernels.conv_fp32x3.product import convolved, is_worth
from benchmarks.kernels.convolution_shapes import FUSED, HELD_BACK, KERNELBENCH, NETWORKS, Shape
from benchmarks.kernels.parts import run, spans

Call = Callable[[torch.Tensor], torch.Tensor]
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
    run({"times": times, "kernels": kernels, "tuned": tuned}, sys.argv[1:])


if __name__ == "__main__":
    main()
