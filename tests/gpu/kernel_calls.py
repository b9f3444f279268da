"""Calls of the shipped kernels on a GPU beside torch's, and the comparison with float64."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import (
    add_layer_norm,
    add_rms_norm,
    batch_norm,
    cumsum,
    embedding_layer_norm,
    gate_product,
    gate_product_halves,
    gelu,
    group_norm,
    layer_norm,
    linear_cross_entropy,
    logsumexp,
    masked_softmax,
    reduction,
    rms_norm,
    rotary,
    softmax,
)
from agent.kernels.masked_softmax import operator as masked
from agent.kernels.rotary.operator import in_torch

# Small calls are the kernels' here, too: they are what is looked at.
os.environ["AGENT_KERNELS_ALWAYS"] = "1"

DTYPES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""What is allowed beside 1 + |truth| for a result that was rounded to the dtype."""
SHAPES = [
    (4, 8),
    (2, 64, 33),
    (3, 32, 7, 5),
    (2, 16, 32, 32),
    (1, 8, 3, 5, 4),
    (2, 12, 8, 8),
    (2, 8, 192, 192),
    (1, 4, 700, 701),
    (3, 64, 14, 14),
    (3, 4, 99, 101),
    (1, 2, 1024, 1024),
]

Function = Callable[..., torch.Tensor]


def _tables(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of as many pairs as x has elements in a row, for its last but one dimension."""
    places = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angles = places[:, None] / torch.arange(1, x.shape[-1] + 1, device=x.device)
    return angles.cos(), angles.sin()


def _beside(x: torch.Tensor) -> torch.Tensor:
    """Rows twice as long, with others between them, as queries lie beside keys."""
    return torch.cat((x.cos(), x, x.sin(), x.cos()), -1)[..., x.shape[-1] : 3 * x.shape[-1]]


def _numbers(x: torch.Tensor) -> torch.Tensor:
    """Of its rows, as entries of a table."""
    count = x.numel() // x.shape[-1]
    return (torch.arange(count, device=x.device) * 7 % count)[None]


def _looked_up(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    embedded = F.embedding(_numbers(x), x.flatten(0, -2))
    return F.layer_norm(embedded, w.shape, w, b), embedded


def _classes(w: torch.Tensor) -> torch.Tensor:
    """The weight of five classes."""
    return torch.outer(torch.arange(1, 6, device=w.device, dtype=w.dtype) / 4, w)


def _targets(x: torch.Tensor) -> torch.Tensor:
    return (torch.arange(x[..., 0].numel(), device=x.device) % 5).view(x.shape[:-1])


def _running(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Statistics of the channels, the same in every dtype."""
    channels = torch.arange(x.shape[1], device=x.device)
    return ((channels % 3) / 4).to(x.dtype), (1 + (channels % 5) / 8).to(x.dtype)


CALLS: dict[str, tuple[Function, Function, int]] = {
    "add_layer_norm": (
        lambda x, w, b: torch.cat(add_layer_norm(x, x.sin(), w.shape, w, b), -1),
        lambda x, w, b: torch.cat((F.layer_norm(x + x.sin(), w.shape, w, b), x + x.sin()), -1),
        2,
    ),
    "add_rms_norm": (
        lambda x, w: torch.cat(add_rms_norm(x, x.sin(), w.shape, w, 1e-5), -1),
        lambda x, w: torch.cat((F.rms_norm(x + x.sin(), w.shape, w, 1e-5), x + x.sin()), -1),
        1,
    ),
    "gelu": (gelu, F.gelu, 0),
    "gate_product": (lambda x: gate_product(x, x.sin(), "gelu"), lambda x: F.gelu(x) * x.sin(), 0),
    "gate_product of halves": (
        lambda x: gate_product_halves(torch.cat((x, x.sin()), -1)), lambda x: F.silu(x) * x.sin(), 0,
    ),
    "layer_norm": (
        lambda x, w, b: layer_norm(x, w.shape, w, b), lambda x, w, b: F.layer_norm(x, w.shape, w, b), 2,
    ),
    "rms_norm": (
        lambda x, w: rms_norm(x, w.shape, w, 1e-5), lambda x, w: F.rms_norm(x, w.shape, w, 1e-5), 1,
    ),
    "rotary": (
        lambda x: rotary(torch.cat((x, x.sin()), -1), *_tables(x)),
        lambda x: in_torch(torch.cat((x, x.sin()), -1), *_tables(x), -2, interleaved=False), 0,
    ),
    "rotary of views": (
        lambda x: rotary(_beside(x), *_tables(x)),
        lambda x: in_torch(_beside(x), *_tables(x), -2, interleaved=False), 0,
    ),
    "softmax": (lambda x: softmax(x, -1), lambda x: torch.softmax(x, -1), 0),
    "softmax of columns": (lambda x: softmax(x, 1), lambda x: torch.softmax(x, 1), 0),
    "logsumexp": (lambda x: logsumexp(x, -1), lambda x: torch.logsumexp(x, -1), 0),
    "masked_softmax": (
        lambda x: masked_softmax(x, x[..., :1, :].detach() > -1, scale=0.5, causal=True),
        lambda x: masked.in_torch(x, x[..., :1, :].detach() > -1, 0.5, causal=True, start=0), 0,
    ),
    "masked_softmax with a bias": (
        lambda x, w: masked_softmax(x, w, scale=2.0), lambda x, w: torch.softmax(2.0 * x + w, -1), 1,
    ),
    "reduction to norms of rows": (
        lambda x: reduction(x, "norm", -1), lambda x: torch.linalg.vector_norm(x, 2, -1), 0,
    ),
    "reduction to sums of columns": (lambda x: reduction(x, "sum", 0), lambda x: x.sum(0), 0),
    "reduction to largest of channels": (
        lambda x: reduction(x, "amax", [0, *range(2, x.dim())]), lambda x: x.amax([0, *range(2, x.dim())]), 0,
    ),
    "reduction to largest of rows": (lambda x: reduction(x, "amax", -1), lambda x: x.amax(-1), 0),
    "reduction to largest of columns": (lambda x: reduction(x, "amax", 0), lambda x: x.amax(0), 0),
    "reduction to a mean": (lambda x: reduction(x, "mean"), torch.mean, 0),
    "cumsum": (lambda x: cumsum(x, -1), lambda x: x.cumsum(-1), 0),
    "cumsum of columns": (lambda x: cumsum(x, 1), lambda x: x.cumsum(1), 0),
    "batch_norm": (
        lambda x: batch_norm(x, *_running(x), act="silu", residual=x.sin()),
        lambda x: F.silu(F.batch_norm(x, *_running(x)) + x.sin()), 0,
    ),
    "batch_norm with trained parameters": (
        lambda x, w, b: batch_norm(x.movedim(-1, 1), *_running(x.movedim(-1, 1)), w, b, act="silu"),
        lambda x, w, b: F.silu(F.batch_norm(x.movedim(-1, 1), *_running(x.movedim(-1, 1)), w, b)), 2,
    ),
    "embedding_layer_norm": (
        lambda x, w, b: torch.cat(embedding_layer_norm(_numbers(x), x.flatten(0, -2), w, b), -1),
        lambda x, w, b: torch.cat(_looked_up(x, w, b), -1), 2,
    ),
    "linear_cross_entropy": (
        lambda x, w: linear_cross_entropy(x, _classes(w), _targets(x)),
        lambda x, w: F.cross_entropy((x @ _classes(w).T).flatten(0, -2), _targets(x).flatten()), 1,
    ),
    "group_norm": (
        lambda x, w, b: group_norm(x, 2, w, b, act="silu"),
        lambda x, w, b: F.silu(F.group_norm(x, 2, w, b)),
        2,
    ),
}  # fmt: skip
"""Ours, torch's, and how many parameters both take: of the last dimension, for group_norm of the channels."""


def drawn(name: str, shape: tuple[int, ...], dtype: torch.dtype, parameters: int) -> list[torch.Tensor]:
    """Input and parameters, with gradients."""
    torch.manual_seed(0)
    size = shape[1] if name == "group_norm" else shape[-1]
    shapes = [shape, *[(size,)] * parameters]
    return [torch.randn(s, device="cuda", dtype=dtype, requires_grad=True) for s in shapes]


def operators() -> Sequence[tuple[Any, tuple[Any, ...]]]:
    """Operators by their own names, with arguments."""
    namespace = torch.ops.kernelwright
    x = torch.randn(2, 4, 6, 6, device="cuda", requires_grad=True)
    w = torch.randn(4, device="cuda", requires_grad=True)
    last = torch.randn(6, device="cuda", requires_grad=True)
    return (
        (namespace.group_norm_forward, (x, None, w, w, 2, 1e-5, "silu")),
        (namespace.group_norm_forward, (x, x, None, None, 2, 1e-5, "none")),
        (namespace.layer_norm_forward, (x, last, last, 1, 1e-5)),
        (namespace.add_layer_norm_forward, (x, x.detach().sin(), last, last, 1, 1e-5)),
        (namespace.add_rms_norm_forward, (x, x.detach().sin(), last, 1, 1e-5)),
        (namespace.rms_norm_forward, (x, last, 1, 1e-5)),
        (namespace.softmax_forward, (x, 1)),
        (namespace.logsumexp_forward, (x, 1)),
        (namespace.batch_norm_forward, (x, x, w.detach(), w.detach().square(), w, w, 1e-3, "silu")),
        (namespace.cumsum_forward, (x, 1, True)),
        (namespace.masked_softmax_forward, (x, last, 0.5, True, 1)),
        (namespace.reduction_forward, (x, "norm", [0, 2], True)),
        (namespace.reduction_forward, (x, "sum", [1], False)),
        (namespace.gelu_forward, (x, True)),
    )


def close(ours: torch.Tensor, truth: torch.Tensor, allowed: float) -> None:
    scale = 1 + float(truth.abs().max())
    worst = float((ours.double() - truth).abs().max())
    assert ours.shape == truth.shape, f"shape {tuple(ours.shape)} for {tuple(truth.shape)}"
    assert worst <= allowed * scale, f"off by {worst:.3g} where {allowed * scale:.3g} is allowed"


def compared(name: str, tensors: list[torch.Tensor], allowed: float) -> None:
    """Value and gradients against torch in float64."""
    try:
        _compared(name, tensors, allowed)
    except AssertionError as error:
        raise AssertionError(f"{name} {list(tensors[0].shape)} {tensors[0].dtype}: {error}") from error


def _compared(name: str, tensors: list[torch.Tensor], allowed: float) -> None:
    ours, native, _ = CALLS[name]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    value, truth = ours(*tensors), native(*exact)
    close(value, truth, allowed)
    grad = torch.randn_like(value)
    found = torch.autograd.grad(value, tensors, grad)
    wanted = torch.autograd.grad(truth, exact, grad.double())
    for mine, theirs in zip(found, wanted, strict=True):
        close(mine, theirs, 4 * allowed)
