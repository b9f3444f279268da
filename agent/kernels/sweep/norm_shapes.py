"""Sweep's shapes of the norms: the model that has each, and the case."""

from collections.abc import Callable, Iterator

import torch

from agent.kernels import cases, fused_cases
from agent.kernels.case import Case

Shapes = Callable[[], Iterator[tuple[str, Case]]]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
HALF = (F16, BF16)
ALL = (F32, F16, BF16)

GROUP_NORM: tuple[tuple[str, tuple[int, ...], int, tuple[torch.dtype, ...], str], ...] = (
    ("ResNet-50, last stage", (32, 2048, 14, 14), 32, (F16, F32), "none"),
    ("Stable Diffusion 1.5, first block", (2, 320, 64, 64), 32, (F16, F32), "silu"),
    ("Stable Diffusion 1.5, middle", (2, 1280, 8, 8), 32, (F16,), "silu"),
    ("SDXL, second block", (2, 640, 64, 64), 32, (F16, BF16), "silu"),
    ("VAE decoder, last block", (1, 128, 512, 512), 32, (BF16, F32), "silu"),
    ("ResNet-50, first stage", (32, 256, 56, 56), 32, (F16, F32), "none"),
    ("SDXL, first block", (2, 320, 128, 128), 32, (F16,), "silu"),
    ("Stable Diffusion 1.5, third block up", (2, 2560, 16, 16), 32, (F16,), "silu"),
    ("wav2vec 2.0, one channel a group", (4, 512, 15999), 512, (F16, F32), "none"),
    ("ResNet-50, third stage", (32, 1024, 14, 14), 32, (F16,), "none"),
    ("VAE decoder, middle", (1, 512, 64, 64), 32, (BF16, F32), "none"),
    ("Stable Diffusion 1.5, 8 images", (16, 320, 64, 64), 32, (F16,), "silu"),
    ("RetinaNet head, largest level", (2, 256, 100, 152), 32, (F16, F32), "none"),
    ("RetinaNet head, smallest level", (2, 256, 7, 10), 32, (F32,), "none"),
    ("an odd image", (3, 96, 37, 53), 12, (F16, F32), "none"),
    ("ResNet-50, end", (32, 2048, 7, 7), 32, (BF16,), "none"),
    ("SDXL, third block", (2, 1280, 32, 32), 32, (F16,), "silu"),
    ("Demucs", (4, 96, 27563), 4, (F32,), "none"),
    ("video VAE", (1, 128, 9, 96, 96), 32, (BF16,), "silu"),
    ("a small network", (8, 64, 32, 32), 8, (F32,), "none"),
    ("VAE decoder, third block", (1, 256, 256, 256), 32, (F16,), "silu"),
    ("ResNet-50, stem", (32, 64, 112, 112), 32, (F16,), "none"),
    ("point cloud", (16, 128, 2048), 8, (F32,), "none"),
    ("policy network", (1, 256), 8, (F32,), "none"),
    ("few channels a group, odd", (5, 30, 17, 19), 15, (F16,), "none"),
)  # fmt: skip

ROWS: tuple[tuple[str, tuple[int, ...], tuple[torch.dtype, ...]], ...] = (
    ("Llama 3 70B, prefill", (4096, 8192), (BF16,)),
    ("Llama 3 8B, prefill", (4096, 4096), (BF16, F32)),
    ("a batch of BERT", (65536, 768), (F16, F32)),
    ("Llama 3 8B, one token", (1, 4096), (BF16,)),
    ("Qwen 2.5 7B", (8192, 3584), (BF16, F16)),
    ("Qwen 2.5 0.5B", (16384, 896), (BF16,)),
    ("norm of the heads", (65536, 128), (BF16, F32)),
    ("GPT-3", (2048, 12288), (F16,)),
    ("Llama 2 13B, 32 tokens", (32, 5120), (F16,)),
    ("Gemma 2B", (8192, 2048), (BF16, F32)),
    ("Llama 3 405B", (2048, 16384), (BF16,)),
    ("norm of many heads, 64 wide", (262144, 64), (F16,)),
    ("an odd size", (1000, 1537), (F32, F16)),
    ("Mistral 7B, long", (16384, 4096), (BF16,)),
    ("7 rows", (7, 12288), (BF16,)),
    ("Llama 3 70B, 256 tokens", (256, 8192), (F16,)),
    ("Phi-2", (4096, 2560), (F16,)),
    ("Qwen 2.5 1.5B", (8192, 1536), (F32,)),
    ("a row longer than any register holds", (64, 65536), (F32, BF16)),
    ("short and odd", (33000, 100), (F32,)),
)  # fmt: skip

IMAGES: tuple[tuple[str, tuple[int, ...], tuple[torch.dtype, ...]], ...] = (
    ("ViT-B/16, 64 images", (64, 197, 768), (F16, F32)),
    ("ViT-L/16, 32 images", (32, 197, 1024), (BF16,)),
    ("Swin-T, first stage", (32, 3136, 96), (F16, F32)),
    ("Whisper large, encoder", (8, 1500, 1280), (F16,)),
    ("ConvNeXt-T, third stage", (32, 14, 14, 384), (F32, F16)),
    ("CLIP, text", (128, 77, 512), (F16,)),
    ("DiT-XL/2", (16, 256, 1152), (BF16,)),
    ("ViT-B/16, one image", (1, 197, 768), (F32, F16)),
    ("DeiT-Ti", (64, 197, 192), (F32,)),
    ("Falcon 40B", (2048, 8192), (BF16,)),
    ("OPT 66B, one token", (1, 9216), (F16,)),
    ("GPT-2, a training step", (8, 1024, 768), (BF16, F32)),
    ("Wav2vec 2.0", (8, 1499, 1024), (F16,)),
    ("Conformer", (16, 800, 144), (F32,)),
)  # fmt: skip


def _group_norm() -> Iterator[tuple[str, Case]]:
    for source, shape, groups, dtypes, act in GROUP_NORM:
        for dtype in dtypes:
            yield source, cases.of_group_norm(shape, groups, dtype, act)


def _of(rows: tuple[tuple[str, tuple[int, ...], tuple[torch.dtype, ...]], ...],
        made: Callable[[tuple[int, ...], torch.dtype], Case]) -> Shapes:  # fmt: skip
    return lambda: ((source, made(shape, dtype)) for source, shape, dtypes in rows for dtype in dtypes)


SHAPES: dict[str, Shapes] = {
    "add_layer_norm": _of(IMAGES[:10] + ROWS[:3], fused_cases.of_layer_norm),
    "add_rms_norm": _of(ROWS[:16], fused_cases.of_rms_norm),
    "group_norm": _group_norm,
    "layer_norm": _of(ROWS[2:3] + IMAGES + ROWS[:2] + ROWS[6:], cases.of_layer_norm),
    "rms_norm": _of(ROWS, cases.of_rms_norm),
}
