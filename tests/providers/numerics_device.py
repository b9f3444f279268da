"""Runs in a process of its own: the catalogue's kernels on the emulator against torch in float64.

Prints one line of JSON: how many results were compared, the cases that differ, those that ran no kernel, and
what the emulator found. Each file is loaded as it is shipped.
"""

import json
import math
import runpy
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from agent import torch_shim
from agent.build import build_request
from agent.emulator.compile import build, toolchain

Check = tuple[str, torch.Tensor, torch.Tensor, float]
"""Name, result, float64 truth, and the error that is allowed beside 1 + |truth|."""
Affine = tuple[torch.Tensor | None, torch.Tensor | None]

GROUP_NORM = [
    ((2, 8), 4), ((3, 6), 6), ((2, 12, 5), 3), ((2, 8, 6, 6), 2), ((1, 4, 7, 9), 1), ((2, 8, 3, 5, 4), 4),
    ((2, 8, 1, 4), 2), ((1, 2, 150, 150), 1), ((1, 6, 181, 100), 3), ((0, 8, 4), 2), ((2, 4, 0), 2),
]  # fmt: skip
LAYER_NORM = [
    ((5,), 1), ((4, 33), 1), ((2, 3, 64), 1), ((2, 3, 8, 8), 2), ((2, 4, 3, 5), 3), ((2, 2, 2, 2, 2), 5),
    ((3, 35001), 1), ((2, 2, 33000), 2), ((300, 1), 1), ((0, 4), 1),
]  # fmt: skip
SOFTMAX = [
    (), (7,), (3, 1000), (3, 4, 5), (2, 3, 4, 33), (2, 40000), (2, 33001), (3, 1, 40, 1), (2, 2, 3, 2, 3, 2),
    (0, 4),
]  # fmt: skip
AFFINE = [(True, True), (True, False), (False, False)]
OFFSETS = {0.0: 2e-5, 1000.0: 2e-4}
"""Common offset of all elements, and what float32 then allows: the last bit of 1000 is 6e-5."""


def parameters(shape: tuple[int, ...], affine: tuple[bool, bool]) -> Affine:
    weight, bias = (torch.randn(shape) if present else None for present in affine)
    return weight, bias


def double(state: Affine) -> Affine:
    weight, bias = (None if tensor is None else tensor.double() for tensor in state)
    return weight, bias


def layouts(shape: tuple[int, int, int, int]) -> Iterator[torch.Tensor]:
    """Tensors of that shape that no aligned, contiguous load can read as they are."""
    yield torch.randn(math.prod(shape) + 1)[1:].view(shape)
    yield torch.randn(shape).to(memory_format=torch.channels_last)
    yield torch.randn(*shape[:2], shape[2] + 1, shape[3])[:, :, 1:]


def group_norm(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for (shape, groups), affine, eps, (offset, tolerance) in product(
        GROUP_NORM, AFFINE, (1e-5, 0.1), OFFSETS.items()
    ):
        x, state = torch.randn(shape) + offset, parameters(shape[1:2], affine)
        truth = F.group_norm(x.double(), groups, *double(state), eps=eps) if x.numel() else x.double()
        yield f"{shape} {groups} {affine} {eps} {offset}", kernel(x, *state, groups, eps), truth, tolerance
    for x in layouts((2, 4, 4, 4)):
        yield f"strides {x.stride()}", kernel(x, None, None, 2, 1e-5), F.group_norm(x.double(), 2), 2e-5


def layer_norm(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for (shape, dims), affine, (offset, tolerance) in product(LAYER_NORM, AFFINE, OFFSETS.items()):
        normalized = shape[-dims:]
        x, state = torch.randn(shape) + offset, parameters(normalized, affine)
        truth = F.layer_norm(x.double(), normalized, *double(state), eps=0.1) if x.numel() else x.double()
        yield f"{shape} {dims} {affine} {offset}", kernel(x, *state, dims, 0.1), truth, tolerance
    for x in layouts((2, 4, 4, 4)):
        yield f"strides {x.stride()}", kernel(x, None, None, 1, 1e-5), F.layer_norm(x.double(), (4,)), 2e-5


def rms_norm(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for (shape, dims), affine in product(LAYER_NORM, (True, False)):
        normalized = shape[-dims:]
        x = torch.randn(shape) + 3
        weight, _ = parameters(normalized, (affine, False))
        wide = None if weight is None else weight.double()
        truth = F.rms_norm(x.double(), normalized, wide, 0.1) if x.numel() else x.double()
        yield f"{shape} {dims} {affine}", kernel(x, weight, dims, 0.1), truth, 2e-5
    for x in layouts((2, 4, 4, 4)):
        yield (
            f"strides {x.stride()}",
            kernel(x, None, 1, 1e-5),
            F.rms_norm(x.double(), (4,), None, 1e-5),
            2e-5,
        )


def logsumexp(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for shape in SOFTMAX[1:]:
        for dim, keepdim in product(range(-len(shape), len(shape)), (False, True)):
            if shape[dim] == 0:
                continue
            x = torch.randn(shape) * 5
            yield f"{shape} {dim}", kernel(x, dim, keepdim), torch.logsumexp(x.double(), dim, keepdim), 1e-6
    special = torch.randn(4, 37)
    special[0] = -math.inf
    special[1, :30] = -math.inf
    special[2, 5] = math.inf
    special[3, 5] = math.nan
    for dim in (0, 1):
        yield f"special {dim}", kernel(special, dim, False), torch.logsumexp(special.double(), dim), 1e-6


def softmax(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for shape in SOFTMAX:
        for dim in range(-len(shape), max(len(shape), 1)):
            x = torch.randn(shape) * 5
            yield f"{shape} {dim}", kernel(x, dim), F.softmax(x.double(), dim), 1e-6
    special = torch.randn(4, 37)
    special[0] = -math.inf
    special[1, :30] = -math.inf
    special[2, 5] = math.inf
    special[3, 5] = math.nan
    masked = torch.full((2, 40000), -math.inf)
    masked[0, -1] = 1.0
    for x, dim in [(special, 0), (special, 1), (masked, 1), (torch.randn(2, 300) * 1e4, 1)]:
        yield f"special {tuple(x.shape)} {dim}", kernel(x, dim), F.softmax(x.double(), dim), 1e-6
    for x in layouts((2, 4, 4, 4)):
        yield f"strides {x.stride()}", kernel(x, -1), F.softmax(x.double(), -1), 1e-6


def gelu(kernel: Callable[..., torch.Tensor]) -> Iterator[Check]:
    for shape, approximate in product([(), (3,), (4, 4), (257, 33), (0,)], ("none", "tanh")):
        x = torch.randn(shape) * 4
        yield (
            f"{shape} {approximate}",
            kernel(x, approximate),
            F.gelu(x.double(), approximate=approximate),
            2e-6,
        )
    for x in layouts((2, 4, 4, 4)):
        yield f"strides {x.stride()}", kernel(x, "none"), F.gelu(x.double()), 2e-6


def differs(result: torch.Tensor, truth: torch.Tensor, tolerance: float) -> bool:
    if result.dtype != torch.float32 or result.shape != truth.shape:
        return True
    if not torch.equal(result.isnan(), truth.isnan()):
        return True
    excess = (result.double() - truth).abs() - tolerance * (1 + truth.abs())
    return bool((excess.nan_to_num(-1) > 0).any())


def main(sources: Path, cache: Path) -> None:
    tools = toolchain.prepare()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        built = build.extension(
            tools, build_request.BuildRequest(**request, candidate_source=""), cache, timeout_s=120
        )
        return {"error": built.log} if built.library is None else {"library": str(built.library)}

    torch_shim.install(str(tools.runtime), answer)
    torch.set_default_device("cuda")
    torch.manual_seed(0)
    compared, launches, wrong, idle = 0, 0, [], []
    for cases in (gelu, group_norm, layer_norm, logsumexp, rms_norm, softmax):
        name = cases.__name__
        for case, result, truth, tolerance in cases(runpy.run_path(str(sources / f"{name}.py"))[name]):
            compared += 1
            if differs(result, truth, tolerance):
                wrong.append(f"{name} {case}")
            if result.numel() and torch_shim.launches() == launches:
                idle.append(f"{name} {case}")
            launches = torch_shim.launches()
    report = {"compared": compared, "wrong": wrong, "idle": idle, "findings": torch_shim.findings()}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
