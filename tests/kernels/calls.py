"""One call of every shipped kernel, with torch's own beside it."""

import torch
import torch.nn.functional as F
from kernels import calls_axes
from kernels.call import Call as Call
from kernels.call import both

from agent.kernels import (
    add_layer_norm,
    add_rms_norm,
    conv_fp32x3,
    conv_transpose_fp32x3,
    cross_entropy,
    gate_product,
    gate_product_halves,
    gelu,
    group_norm,
    layer_norm,
    linear_cross_entropy,
    linear_fp32x3,
    linear_group_norm_min_bias,
    logsumexp,
    matmul_fp32x3,
    matmul_half,
    rms_norm,
    rotary,
    rotary_computed,
    softmax,
)
from agent.kernels import (
    conv_group_norm_tanh_hardswish_residual_logsumexp as conv_logsumexp,
)
from agent.kernels.group_norm.activation import NUMBERS


def _activated(act: str) -> Call:
    bent = {"none": torch.Tensor.clone}.get(act) or getattr(F, act)
    return Call(
        lambda x, residual, w, b: group_norm(x, 2, w, b, act=act, residual=residual),
        lambda x, residual, w, b: bent(F.group_norm(x, 2, w, b) + residual),
        (2, 4, 3, 3), ((2, 4, 3, 3), (4,), (4,)),
    )  # fmt: skip


def _least(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *affine: torch.Tensor) -> torch.Tensor:
    """In torch's functions, of affine: linear bias, gamma and beta."""
    linear_bias, gamma, beta = affine or (None, None, None)
    z = F.group_norm(F.linear(x, weight, linear_bias), 2, gamma, beta)
    return torch.min(z, dim=1, keepdim=True).values + bias


def _conv_logsumexp(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, gamma: torch.Tensor | None,
    beta: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    c = F.conv2d(x, weight, bias)
    bent = F.hardswish(torch.tanh(F.group_norm(c, 2, gamma, beta)))
    return torch.logsumexp(c + bent, 1, keepdim=True)


_RANDOM = torch.Generator().manual_seed(1)
TABLES = tuple(torch.randn(3, 2, generator=_RANDOM, dtype=torch.float64) for _ in range(2))
FREQUENCIES = torch.tensor([1.0, 0.25, 0.0625])


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The first four elements of rows at three positions, pairs half a row apart."""
    a, b, rest = x[..., :2], x[..., 2:4], x[..., 4:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def _turned_by_angles(x: torch.Tensor) -> torch.Tensor:
    """Positions from 7 in the second dimension of four, pairs side by side."""
    angles = torch.outer(torch.arange(7.0, 7.0 + x.shape[1]), FREQUENCIES)[:, None]
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


TARGETS = torch.tensor([[1, -100, 4], [0, 2, -100]])


def _loss(x: torch.Tensor) -> torch.Tensor:
    """With classes that are ignored, label smoothing and a z-loss."""
    counts, log = (TARGETS != -100).to(x.dtype), torch.logsumexp(x, -1)
    rows = F.cross_entropy(x.reshape(6, 5), TARGETS.view(6), reduction="none", label_smoothing=0.1).view(2, 3)
    return (rows + 0.25 * log.square() * counts).sum() / counts.sum()


CALLS = {
    **calls_axes.CALLS,
    "cross_entropy": Call(
        lambda x: cross_entropy(x, TARGETS, label_smoothing=0.1, z_loss=0.25), _loss, (2, 3, 5)
    ),
    "cross_entropy of rows, plain": Call(
        lambda x: cross_entropy(x, x.detach().sin().argmax(-1), reduction="none"),
        lambda x: F.cross_entropy(x, x.detach().sin().argmax(-1), reduction="none"), (3, 5),
    ),
    "add_layer_norm": Call(
        lambda x, r, w, b: both(add_layer_norm(x, r, (5,), w, b)),
        lambda x, r, w, b: both((F.layer_norm(x + r, (5,), w, b), x + r)), (3, 4, 5),
        ((3, 4, 5), (5,), (5,)),
    ),
    "add_layer_norm of two dimensions, the norm alone": Call(
        lambda x: add_layer_norm(x, x.sin(), (4, 5))[0], lambda x: F.layer_norm(x + x.sin(), (4, 5)),
        (3, 4, 5),
    ),
    "add_rms_norm": Call(
        lambda x, r, w: both(add_rms_norm(x, r, (5,), w, 1e-5)),
        lambda x, r, w: both((F.rms_norm(x + r, (5,), w, 1e-5), x + r)), (3, 4, 5), ((3, 4, 5), (5,)),
    ),
    "conv_logsumexp": Call(
        lambda x, w, b, gamma, beta: conv_logsumexp(x, w, b, 2, gamma, beta), _conv_logsumexp,
        (2, 3, 5, 8), ((4, 3, 3, 3), (4,), (4,), (4,)),
    ),
    "conv_logsumexp, beta alone": Call(
        lambda x, w, beta: conv_logsumexp(x, w, None, 2, None, beta),
        # Torch's own backward fails for a beta alone.
        lambda x, w, beta: _conv_logsumexp(x, w, None, torch.ones_like(beta), beta),
        (2, 3, 5, 8), ((4, 3, 3, 3), (4,)),
    ),
    "gate_product": Call(gate_product, lambda g, v: F.silu(g) * v, (3, 5), ((3, 5),)),
    "gate_product of halves, gate second": Call(
        lambda x: gate_product_halves(x, "gelu_tanh", gate_first=False),
        lambda x: x[..., :5] * F.gelu(x[..., 5:], approximate="tanh"), (3, 4, 10),
    ),
    "gate_product of chunks": Call(
        lambda x: gate_product(x[..., :3], x[..., 3:], "gelu"), lambda x: F.gelu(x[..., :3]) * x[..., 3:],
        (3, 4, 6),
    ),
    "gelu": Call(gelu, F.gelu, (3, 5)),
    "gelu by tanh": Call(lambda x: gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), (3, 5)),
    "group_norm": Call(
        lambda x, w, b: group_norm(x, 2, w, b), lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 3, 3),
        ((4,), (4,)),
    ),
    "group_norm of two dimensions, bias alone": Call(
        # Torch's own backward fails for a bias alone.
        lambda x, b: group_norm(x, 2, None, b), lambda x, b: F.group_norm(x, 2, torch.ones_like(b), b),
        (3, 4), ((4,),),
    ),
    **{f"group_norm, residual, {act}": _activated(act) for act in NUMBERS},
    "layer_norm": Call(
        lambda x, w, b: layer_norm(x, (5,), w, b), lambda x, w, b: F.layer_norm(x, (5,), w, b), (3, 4, 5),
        ((5,), (5,)),
    ),
    "layer_norm of two dimensions": Call(
        lambda x: layer_norm(x, (4, 5)), lambda x: F.layer_norm(x, (4, 5)), (3, 4, 5)
    ),
    "linear_cross_entropy": Call(
        lambda x, w, b: linear_cross_entropy(x, w, TARGETS, b, label_smoothing=0.1, z_loss=0.25),
        lambda x, w, b: _loss(F.linear(x, w, b)), (2, 3, 4), ((5, 4), (5,)),
    ),
    "linear_cross_entropy, a sum": Call(
        lambda x, w: linear_cross_entropy(x, w, TARGETS[0], reduction="sum"),
        lambda x, w: F.cross_entropy(x @ w.T, TARGETS[0], reduction="sum"), (3, 4), ((5, 4),),
    ),
    "linear_fp32x3": Call(linear_fp32x3, F.linear, (3, 5), ((4, 5), (4,))),
    "linear_fp32x3 of a vector, without a bias": Call(
        lambda x, w: linear_fp32x3(x, w, precision="ieee"), F.linear, (5,), ((4, 5),)
    ),
    "linear_fp32x3 of three dimensions": Call(linear_fp32x3, F.linear, (2, 3, 5), ((4, 5), (4,))),
    "linear_group_norm_min_bias": Call(
        lambda x, w, bias, lb, g, b: linear_group_norm_min_bias(x, w, lb, 2, g, b, bias),
        _least, (3, 5), ((8, 5), (1, 4, 1, 1), (8,), (8,), (8,)),
    ),
    "linear_group_norm_min_bias, plain": Call(
        lambda x, w, bias: linear_group_norm_min_bias(x, w, None, 2, None, None, bias),
        _least, (3, 5), ((8, 5), (1, 4, 1, 1)),
    ),
    "matmul_fp32x3": Call(matmul_fp32x3, torch.matmul, (3, 5), ((5, 4),)),
    "matmul_fp32x3 of batches, with something added": Call(
        lambda a, b, c: matmul_fp32x3(a, b, c, alpha=0.5, beta=-2.0), lambda a, b, c: 0.5 * a @ b - 2 * c,
        (2, 1, 3, 5), ((6, 5, 4), (3, 1)),
    ),
    "matmul_fp32x3 of triangular operands": Call(
        lambda a, b: matmul_fp32x3(a, b, a_is="lower", b_is="upper"), lambda a, b: a.tril() @ b.triu(),
        (4, 5), ((5, 6),),
    ),
    "matmul_fp32x3 of a batch and one triangle": Call(
        lambda a, b: matmul_fp32x3(a, b, a_is="upper"), lambda a, b: a.triu() @ b, (2, 4, 5), ((5, 6),)
    ),
    "matmul_fp32x3 of which one side is wanted": Call(
        lambda a, b, c: matmul_fp32x3(a, b, c, beta=2.0, b_is="lower", y_is="upper"),
        lambda a, b, c: (a @ b.tril() + 2 * c).triu(), (4, 5), ((5, 6), (6,)),
    ),
    "matmul_fp32x3 of a batch of which one side is wanted": Call(
        lambda a, b: matmul_fp32x3(a, b, a_is="lower", y_is="lower"), lambda a, b: (a.tril() @ b).tril(),
        (2, 4, 5), ((5, 6),),
    ),
    "matmul_fp32x3 of a batch and one matrix": Call(
        lambda a, b, c: matmul_fp32x3(a.mT, b.mT, c, precision="ieee"), lambda a, b, c: a.mT @ b.mT + c,
        (2, 5, 3), ((4, 5), (4,)),
    ),
    "matmul_half": Call(matmul_half, torch.matmul, (3, 5), ((5, 4),)),
    "matmul_half of batches, with something added": Call(
        lambda a, b, c: matmul_half(a, b, c, alpha=0.5, beta=-2.0), lambda a, b, c: 0.5 * a @ b - 2 * c,
        (2, 1, 3, 5), ((6, 5, 4), (3, 1)),
    ),
    "matmul_half of a batch and one matrix": Call(
        lambda a, b, c: matmul_half(a.mT, b.mT, c), lambda a, b, c: a.mT @ b.mT + c,
        (2, 5, 3), ((4, 5), (4,)),
    ),
    "matmul_half of one matrix and a batch": Call(
        lambda a, b: matmul_half(a, b, alpha=3.0), lambda a, b: 3 * (a @ b), (3, 5), ((2, 5, 4),)
    ),
    "conv_fp32x3": Call(
        lambda x, w, b: conv_fp32x3(x, w, b, (1, 2), 1, (2, 1), 2),
        lambda x, w, b: F.conv2d(x, w, b, (1, 2), 1, (2, 1), 2), (2, 4, 7, 8), ((6, 2, 3, 3), (6,)),
    ),
    "conv_fp32x3 of one dimension, without a bias": Call(
        lambda x, w: conv_fp32x3(x, w, precision="ieee"), F.conv1d, (2, 3, 9), ((4, 3, 2),)
    ),
    "conv_transpose_fp32x3": Call(
        lambda x, w, b: conv_transpose_fp32x3(x, w, b, 2, (1, 0), (1, 0)),
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, (1, 0), (1, 0)), (2, 4, 5, 3), ((4, 3, 3, 2), (3,)),
    ),
    "conv_transpose_fp32x3 of three dimensions": Call(
        lambda x, w: conv_transpose_fp32x3(x, w, None, 1, 1, 0, 2), 
        lambda x, w: F.conv_transpose3d(x, w, None, 1, 1, 0, 2), (1, 4, 3, 4, 3), ((4, 2, 3, 3, 2),),
    ),
    "logsumexp": Call(
        lambda x: logsumexp(x, 1), lambda x: torch.logsumexp(x, 1), (3, 4, 5)
    ),
    "logsumexp that keeps its dimension": Call(
        lambda x: logsumexp(x, -3, keepdim=True), lambda x: torch.logsumexp(x, 0, keepdim=True), (3, 4, 5)
    ),
    "rms_norm": Call(
        lambda x, w: rms_norm(x, (5,), w, 1e-5), lambda x, w: F.rms_norm(x, (5,), w, 1e-5), (3, 4, 5), ((5,),)
    ),
    "rotary": Call(
        lambda x: rotary(x, *(table.to(x.dtype) for table in TABLES)),
        lambda x: _turned(x, *(table.to(x.dtype) for table in TABLES)), (2, 4, 3, 10),
    ),
    "rotary by computed angles": Call(
        lambda x: rotary_computed(x, FREQUENCIES, start=7, dim=-3, interleaved=True), _turned_by_angles,
        (2, 3, 4, 6),
    ),
    "softmax": Call(lambda x: softmax(x, -1), lambda x: torch.softmax(x, -1), (3, 4, 5)),
    "softmax over the first dimension": Call(
        lambda x: softmax(x, 0), lambda x: torch.softmax(x, 0), (3, 4, 5)
    ),
}  # fmt: skip
