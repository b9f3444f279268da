"""Timed cases of the kernels along dimensions: masked softmax, reductions, cumulative sums."""

from math import prod

import torch

from agent.kernels.case import Case, both, made_once
from agent.kernels.cumsum.operator import cumsum
from agent.kernels.masked_softmax.operator import masked_softmax
from agent.kernels.reduction.operator import in_torch, reduction


def attention() -> list[Case]:
    """Return scores with a key mask, causal scores, and scores with an added bias.

    The shapes are those of decoders and of vision transformers with windows.
    """

    def made(shape: tuple[int, ...], dtype: torch.dtype, causal: bool) -> Case:
        @made_once
        def padding(x: torch.Tensor) -> torch.Tensor | None:
            named = torch.arange(shape[-1], device=x.device) % 8 != 7
            return None if causal else named.expand(len(x), 1, 1, -1)

        def ours(x: torch.Tensor) -> torch.Tensor:
            return masked_softmax(x, padding(x), scale=0.125, causal=causal)

        def native(x: torch.Tensor) -> torch.Tensor:
            scores = 0.125 * x
            if causal:
                ahead = torch.ones(shape[-2:], dtype=torch.bool, device=x.device).triu(1)
                return torch.softmax(scores.masked_fill(ahead, -torch.inf), -1)
            mask = padding(x)
            assert mask is not None
            return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)

        # Half of the elements are read in causal rows, which end at the diagonal; all are written.
        read = 0.5 if causal else 1.0
        return Case(
            "masked_softmax", ours, native, shape, (), dtype, "causal" if causal else "mask of keys",
            result_share=read, backward_share=1 + read,
        )  # fmt: skip

    def biased(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return masked_softmax(x, bias, scale=0.25)

    windows = Case(
        "masked_softmax", biased, lambda x, bias: torch.softmax(0.25 * x + bias, -1), (512, 6, 64, 64),
        ((6, 64, 64),), torch.float16, "bias of 6 heads",
    )  # fmt: skip
    large = [
        made((8, 16, 1024, 1024), torch.float32, causal=False),
        made((8, 16, 1024, 1024), torch.bfloat16, causal=False),
        made((4, 32, 2048, 2048), torch.bfloat16, causal=True),
        made((1, 16, 4096, 4096), torch.float16, causal=True),
        made((16, 12, 197, 197), torch.float16, causal=False),
        windows,
    ]
    return [one for case in large for one in both(case)]


def reductions() -> list[Case]:
    """Return reductions of whole tensors, of long and short rows, of columns, and of a middle dimension."""

    def made(kind: str, shape: tuple[int, ...], dims: list[int], dtype: torch.dtype) -> Case:
        def ours(x: torch.Tensor) -> torch.Tensor:
            return reduction(x, kind, dims)

        def native(x: torch.Tensor) -> torch.Tensor:
            return in_torch(x, kind, dims, keepdim=False)

        share = 1 / prod(shape[dim] for dim in dims)
        setting = f"{kind} over {dims}"
        return Case("reduction", ours, native, shape, (), dtype, setting, result_share=share, sample=None)

    alone = [
        made("sum", (16384, 16384), [0, 1], torch.float32),
        made("mean", (65536, 768), [1], torch.bfloat16),
        made("sum", (4096, 32000), [1], torch.float32),
        made("sum", (32768, 4096), [0], torch.bfloat16),
        made("mean", (64, 512, 56, 56), [0, 2, 3], torch.float16),
        made("mean", (64, 512, 28, 28), [2, 3], torch.float16),
        made("argmax", (4096, 50257), [1], torch.float16),
        made("argmax", (8, 128256), [1], torch.float32),
        made("sum", (2048, 2048, 16), [2], torch.float32),
    ]
    trained = [
        made("amax", (64, 512, 28, 28), [2, 3], torch.float32),
        made("amax", (16, 1024, 4096), [1], torch.bfloat16),
        made("norm", (8192, 8192), [1], torch.float32),
        made("norm", (67108864,), [0], torch.float32),
    ]
    return [*alone, *(one for case in trained for one in both(case))]


def cumulative() -> list[Case]:
    """Return sums along many rows, few long rows, short rows, and wide and narrow inner dimensions."""

    def made(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> Case:
        def ours(x: torch.Tensor) -> torch.Tensor:
            return cumsum(x, dim)

        def native(x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(x, dim)

        return Case("cumsum", ours, native, shape, (), dtype, f"along {dim}", backward_share=1.0)

    every = [
        made((8192, 8192), 1, torch.float32),
        made((4096, 16384), 1, torch.bfloat16),
        made((8, 4194304), 1, torch.float32),
        made((262144, 128), 1, torch.float32),
        made((64, 1024, 1024), 1, torch.float32),
        made((16, 4096, 512), 1, torch.bfloat16),
        made((65536, 64), 0, torch.float32),
    ]
    return [every[0], *both(every[1]), *both(every[2]), *every[3:5], *both(every[5]), *every[6:]]
