"""Sweep's shapes of all kernels that are not norms: the model that has each, and the case."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import cases, fused_cases, product_cases
from agent.kernels.case import Case
from agent.kernels.gelu.operator import gelu
from agent.kernels.logsumexp.operator import logsumexp
from agent.kernels.softmax.operator import softmax
from agent.kernels.sweep.norm_shapes import ALL, BF16, F16, F32, Shapes

Sizes = tuple[tuple[str, tuple[int, ...], int, tuple[torch.dtype, ...]], ...]

SOFTMAX: Sizes = (
    ("ViT-B/16, attention", (64, 12, 197, 197), -1, (F16, F32)),
    ("a decoder's attention", (2, 32, 1024, 1024), -1, (BF16, F32)),
    ("Stable Diffusion, self-attention", (2, 8, 4096, 4096), -1, (F16,)),
    ("Stable Diffusion, cross-attention", (16, 4096, 77), -1, (F16, F32)),
    ("Llama 2, vocabulary", (4096, 32000), -1, (F32, BF16)),
    ("a decoder, one token", (1, 32, 1, 4096), -1, (BF16,)),
    ("router of 8 experts", (16384, 8), -1, (F32, BF16)),
    ("segmentation", (8, 21, 512, 512), 1, (F32, F16)),
    ("Whisper large, attention", (4, 20, 1500, 1500), -1, (F16,)),
    ("GPT-2, vocabulary", (512, 50257), -1, (F32, F16)),
    ("ImageNet", (256, 1000), -1, (F32,)),
    ("Llama 3, vocabulary, one token", (1, 128256), -1, (BF16, F32)),
    ("Swin, windows", (2048, 3, 49, 49), -1, (F16,)),
    ("router of 64 experts", (8192, 64), -1, (F32,)),
    ("BERT, attention", (32, 12, 512, 512), -1, (F16,)),
    ("a large vocabulary", (256, 256000), -1, (BF16,)),
    ("CTC", (1600, 32), -1, (F32,)),
    ("depth, over planes", (2, 48, 128, 416), 1, (F32,)),
    ("an odd size", (1001, 777), -1, (F16, F32)),
)  # fmt: skip
LOGSUMEXP: Sizes = (
    ("short rows", (65536, 768), -1, (F16, F32)),
    ("Llama 2, vocabulary", (4096, 32000), -1, (F32, BF16)),
    ("Llama 3, vocabulary", (1024, 128256), -1, (BF16, F32)),
    ("CLIP, a batch's similarities", (4096, 4096), -1, (F32, F16)),
    ("attention", (2, 32, 1024, 1024), -1, (BF16, F32)),
    ("router of 64 experts", (16384, 64), -1, (F32, BF16)),
    ("router of 8 experts", (16384, 8), -1, (F32,)),
    ("GPT-2, vocabulary", (512, 50257), -1, (F16, F32)),
    ("segmentation", (8, 21, 512, 512), 1, (F32,)),
    ("ImageNet", (256, 1000), -1, (F32,)),
    ("one token", (1, 128256), -1, (BF16,)),
    ("mixture density", (8192, 16, 24), 1, (F32,)),
    ("CRF, tags", (64, 128, 48, 48), 2, (F32,)),
    ("ViT-B/16, attention", (64, 12, 197, 197), -1, (F16,)),
    ("short rows, 256", (131072, 256), -1, (F16, F32)),
    ("short rows, 1536", (32768, 1536), -1, (BF16,)),
    ("an odd size", (1001, 777), -1, (F16, F32)),
    ("a large vocabulary", (256, 256000), -1, (BF16,)),
)  # fmt: skip
GELU: tuple[tuple[str, tuple[int, ...], str, tuple[torch.dtype, ...]], ...] = (
    ("7 rows of GPT-3", (7, 12288), "none", (BF16, F32)),
    ("ViT-B/16, 64 images", (64, 197, 3072), "none", ALL),
    ("GPT-2, a training step", (8, 1024, 3072), "tanh", (BF16, F32)),
    ("BERT, one sentence", (1, 128, 3072), "none", (F16, F32)),
    ("Whisper large", (8, 1500, 5120), "none", (F16,)),
    ("Falcon 40B", (2048, 32768), "none", (BF16,)),
    ("ConvNeXt-T, first stage", (32, 56, 56, 384), "none", (F16, F32)),
    ("Gemma 2B, one token", (1, 16384), "tanh", (BF16,)),
    ("Swin-T, first stage", (32, 3136, 384), "none", (F16,)),
    ("a small network", (256, 512), "none", (F32,)),
    ("wav2vec 2.0, convolutions", (4, 512, 7999), "none", (F16, F32)),
    ("DiT-XL/2", (16, 256, 4608), "tanh", (BF16,)),
    ("an odd size", (1001, 777), "none", (F32, F16)),
    ("the reference's", (8192, 11008), "none", (F16, BF16)),
    ("one row", (1, 3072), "none", (F32,)),
    ("Phi-2", (4096, 10240), "tanh", (F16,)),
)  # fmt: skip
GATES: tuple[tuple[str, tuple[int, ...], Any, tuple[torch.dtype, ...]], ...] = (
    ("Llama 3 8B", (4096, 14336), fused_cases.of_two, (BF16, F32)),
    ("Stable Diffusion 1.5, first block", (2, 4096, 2560), fused_cases.of_geglu, (F16, F32)),
    ("Llama 3 8B, one token", (1, 14336), fused_cases.of_two, (BF16,)),
    ("Qwen 2.5 7B, halves", (4096, 37888), fused_cases.of_halves, (BF16,)),
    ("Stable Diffusion 1.5, third block", (2, 256, 10240), fused_cases.of_geglu, (F16,)),
    ("Llama 3 70B", (2048, 28672), fused_cases.of_two, (BF16,)),
    ("Qwen 2.5 0.5B", (8192, 4864), fused_cases.of_two, (BF16, F32)),
    ("SDXL, third block", (2, 1024, 10240), fused_cases.of_geglu, (F16,)),
    ("Llama 2 7B, 32 tokens", (32, 11008), fused_cases.of_two, (F16,)),
    ("Mixtral, an expert", (512, 14336), fused_cases.of_two, (BF16,)),
    ("an odd size", (333, 2 * 1365), fused_cases.of_halves, (F16, F32)),
    ("DINOv2 giant", (16, 257, 8192), fused_cases.of_halves, (F16,)),
)  # fmt: skip
TURNS: tuple[tuple[str, tuple[int, ...], int, bool, tuple[torch.dtype, ...]], ...] = (
    ("Llama 3 8B, queries", (1, 32, 4096, 128), -2, False, (BF16, F32)),
    ("Llama 3 8B, keys", (1, 8, 4096, 128), -2, False, (BF16,)),
    ("Llama 3 8B, one token", (1, 32, 1, 128), -2, False, (BF16,)),
    ("positions before heads", (4, 2048, 32, 128), -3, False, (BF16, F16)),
    ("GPT-J, side by side", (2, 2048, 16, 64), -3, True, (F16, F32)),
    ("Qwen 2.5 0.5B", (8, 14, 2048, 64), -2, False, (BF16,)),
    ("Gemma 2B", (4, 8, 2048, 256), -2, False, (BF16,)),
    ("Flux, side by side", (1, 24, 4608, 128), -2, True, (BF16,)),
    ("a batch of tokens", (64, 32, 1, 128), -2, False, (F16,)),
    ("an odd length", (3, 5, 333, 80), -2, False, (F32, F16)),
)  # fmt: skip
LOSSES: tuple[tuple[str, tuple[int, ...], tuple[torch.dtype, ...]], ...] = (
    ("Llama 2, vocabulary", (4096, 32000), (F32, BF16)),
    ("Llama 3, vocabulary", (2048, 128256), (BF16, F32)),
    ("ImageNet", (256, 1000), (F32, F16)),
    ("GPT-2, vocabulary", (1024, 50257), (F32, BF16)),
    ("Qwen 2.5", (1024, 151936), (BF16,)),
    ("BERT, masked words", (2048, 30522), (F16,)),
    ("CIFAR-100", (512, 100), (F32,)),
    ("segments", (65536, 150), (F32, F16)),
    ("Gemma", (512, 256000), (BF16,)),
    ("ten classes", (8192, 10), (F32,)),
    ("one row", (1, 32000), (BF16,)),
    ("ImageNet-21k", (1024, 21841), (F16,)),
)  # fmt: skip
CONVOLUTIONS = ((128, 8, 128, 128), (16, 8, 128, 128), (32, 16, 64, 64), (8, 3, 224, 224), (1, 8, 128, 128))


def _reduced(kernel: str, sizes: Sizes, ours: Any, native: Any, keeps: bool) -> Shapes:
    def shapes() -> Iterator[tuple[str, Case]]:
        for source, shape, dim, dtypes in sizes:
            for dtype in dtypes:
                sides = partial(ours, dim=dim), partial(native, dim=dim)
                setting = "" if dim == -1 else f"over dimension {dim}"
                share = 1.0 if keeps else 1 / shape[dim]
                yield source, Case(kernel, *sides, shape, (), dtype, setting, result_share=share)

    return shapes


def _gelu() -> Iterator[tuple[str, Case]]:
    for source, shape, way, dtypes in GELU:
        for dtype in dtypes:
            sides = partial(gelu, approximate=way), partial(F.gelu, approximate=way)
            yield source, Case("gelu", *sides, shape, (), dtype, "" if way == "none" else way)


def _gates() -> Iterator[tuple[str, Case]]:
    return ((source, made(shape, dtype)) for source, shape, made, dtypes in GATES for dtype in dtypes)


def _turns() -> Iterator[tuple[str, Case]]:
    for source, shape, dim, interleaved, dtypes in TURNS:
        for dtype in dtypes:
            yield source, fused_cases.of_rotary(shape, dim, dtype, interleaved)


def _losses() -> Iterator[tuple[str, Case]]:
    return (
        (source, fused_cases.of_loss(shape, dtype)) for source, shape, dtypes in LOSSES for dtype in dtypes
    )


def _convolutions() -> Iterator[tuple[str, Case]]:
    return (("images", cases.of_conv_logsumexp(shape)) for shape in CONVOLUTIONS)


def _products() -> Iterator[tuple[str, Case]]:
    return (
        ("products", one)
        for one in product_cases.products()
        if not one.trains and "transposed" not in one.setting
    )


def _windows() -> Iterator[tuple[str, Case]]:
    return (("networks", one) for one in product_cases.convolutions() if not one.trains)


SHAPES: dict[str, Shapes] = {
    "conv_fp32x3": _windows,
    "conv_group_norm_tanh_hardswish_residual_logsumexp": _convolutions,
    "cross_entropy": _losses,
    "gate_product": _gates,
    "gelu": _gelu,
    "logsumexp": _reduced("logsumexp", LOGSUMEXP, logsumexp, torch.logsumexp, keeps=False),
    "matmul_fp32x3": _products,
    "rotary": _turns,
    "softmax": _reduced("softmax", SOFTMAX, softmax, torch.softmax, keeps=True),
}
