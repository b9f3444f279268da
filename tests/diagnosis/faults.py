"""Wrong answers in a line of torch each: what a faulty kernel computes, over the references of the corpus.

`FAULTS` maps a problem to (name, kinds that are right, what the wrong kernel computes from the module with the
perturbed parameters and the inputs).
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
Wrong = Callable[..., Any]
Fault = tuple[str, tuple[str, ...], Wrong]


def _group(x: Tensor, m: Any, groups: int | None = None) -> Tensor:
    return F.group_norm(x, groups or m.norm.num_groups, m.norm.weight, m.norm.bias, m.norm.eps)


def _normed(x: Tensor, axes: tuple[int, ...], eps: float, correction: int = 0) -> Tensor:
    mean = x.mean(axes, keepdim=True)
    return (x - mean) * (x.var(axes, keepdim=True, correction=correction) + eps).rsqrt()


def _conv(
    m: Any, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, **other: Any
) -> Tensor:
    geometry = {"stride": 2, "padding": 2, "dilation": 2} | other
    weight = m.conv.weight if weight is None else weight
    return F.conv2d(x, weight, m.conv.bias if bias is None else bias, **geometry)


def _truncated(x: Tensor, dim: int, count: int) -> Tensor:
    return x.narrow(dim, 0, count)


FAULTS: dict[str, tuple[Fault, ...]] = {
    "layer_norm": (
        ("batch", ("statistics-over-batch", "statistics-over-wrong-axes"),
         lambda m, x: _normed(x, (0, 1, 2), m.norm.eps) * m.norm.weight + m.norm.bias),
        ("length", ("statistics-over-wrong-axes",),
         lambda m, x: _normed(x, (1,), m.norm.eps) * m.norm.weight + m.norm.bias),
        ("bias missing", ("bias-missing",), lambda m, x: F.layer_norm(x, x.shape[-1:], m.norm.weight, None, m.norm.eps)),
        ("weight missing", ("weight-ignored",), lambda m, x: F.layer_norm(x, x.shape[-1:], None, m.norm.bias, m.norm.eps)),
        ("rms", ("mean-not-subtracted",), lambda m, x: F.rms_norm(x, x.shape[-1:], m.norm.weight, m.norm.eps) + m.norm.bias),
        ("first 64", ("lost-last-block",), lambda m, x: _first_columns(m, x, 64)),
        ("eps 1e-5", ("wrong-eps", "eps-omitted"), lambda m, x: F.layer_norm(x, x.shape[-1:], m.norm.weight, m.norm.bias, 1e-5)),
        ("affine by row", ("layout-misread", "affine-per-group"), lambda m, x: _normed(x, (2,), m.norm.eps)
         * m.norm.weight[:7].reshape(1, 7, 1) + m.norm.bias[:7].reshape(1, 7, 1)),
        ("half", ("reduced-precision",), lambda m, x: F.layer_norm(x, x.shape[-1:], m.norm.weight, m.norm.bias, m.norm.eps).half().float()),
        ("transposed", ("layout-misread",), lambda m, x: F.layer_norm(x, x.shape[-1:], m.norm.weight, m.norm.bias, m.norm.eps).transpose(0, 1).reshape(x.shape)),
    ),
    "group_norm": (
        ("instance", ("statistics-per-channel",), lambda m, x: _group(x, m, 12)),
        ("layer", ("statistics-over-wrong-axes",), lambda m, x: _group(x, m, 1)),
        ("groups exchanged", ("statistics-over-wrong-axes",), lambda m, x: _group(x, m, 3)),
        ("swapped", ("gamma-beta-swapped",), lambda m, x: F.group_norm(x, 4, m.norm.bias, m.norm.weight, m.norm.eps)),
        ("eps outside", ("eps-outside-root",), lambda m, x: _by_group(m, x, lambda var: 1 / (var.sqrt() + m.norm.eps))),
        ("no root", ("root-omitted",), lambda m, x: _by_group(m, x, lambda var: 1 / (var + m.norm.eps))),
        ("unbiased", ("unbiased-variance",), lambda m, x: _by_group(m, x, lambda var: (var * 189 / 188 + m.norm.eps).rsqrt())),
        ("sample 0", ("statistics-over-batch",), lambda m, x: _first_statistics(m, x)),
        ("affine ignored", ("affine-ignored",), lambda m, x: F.group_norm(x, 4, eps=m.norm.eps)),
    ),
    "batch_norm_relu": (
        ("eps omitted", ("eps-omitted",), lambda m, x: torch.relu(F.batch_norm(x, m.norm.running_mean, m.norm.running_var, m.norm.weight, m.norm.bias, eps=0.0))),
        ("batch", ("running-stats-ignored",), lambda m, x: torch.relu(F.batch_norm(x, None, None, m.norm.weight, m.norm.bias, True))),
        ("variance as deviation", ("root-omitted",), lambda m, x: torch.relu(
            (x - _c(m.norm.running_mean)) / (_c(m.norm.running_var) + 1e-5) * _c(m.norm.weight) + _c(m.norm.bias))),
        ("no bias", ("bias-missing",), lambda m, x: torch.relu(F.batch_norm(x, m.norm.running_mean, m.norm.running_var, m.norm.weight, None))),
        ("leaky", ("wrong-activation",), lambda m, x: F.leaky_relu(m.norm(x))),
        ("mean ignored", ("running-stats-ignored", "mean-not-subtracted"), lambda m, x: torch.relu(F.batch_norm(x, 0 * m.norm.running_mean, m.norm.running_var, m.norm.weight, m.norm.bias))),
    ),
    "rms_norm": (
        ("eps twice", ("eps-twice",), lambda m, x: x * (x.pow(2).mean(-1, keepdim=True) + 2 * m.eps).rsqrt() * m.weight),
        ("eps omitted", ("eps-omitted",), lambda m, x: x * x.pow(2).mean(-1, keepdim=True).rsqrt() * m.weight),
        ("eps max", ("eps-inside-max", "eps-omitted"), lambda m, x: x * x.pow(2).mean(-1, keepdim=True).clamp_min(m.eps).rsqrt() * m.weight),
        ("centred", ("wrong-activation", "unknown-cause", "operator-doubled", "mean-not-subtracted"),
         lambda m, x: x * ((x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True) + m.eps).rsqrt() * m.weight),
        ("abs", ("square-omitted",), lambda m, x: x * (x.abs().mean(-1, keepdim=True) + m.eps).rsqrt() * m.weight),
        ("n - 1", ("wrong-divisor",), lambda m, x: x * (x.pow(2).sum(-1, keepdim=True) / 69 + m.eps).rsqrt() * m.weight),
        ("columns", ("wrong-axis", "layout-misread"), lambda m, x: x * (x.pow(2).mean(0, keepdim=True) + m.eps).rsqrt() * m.weight),
        ("weight by row", ("keepdim-broadcast", "layout-misread", "affine-per-group"), lambda m, x: x * (x.pow(2).mean(-1, keepdim=True) + m.eps).rsqrt() * m.weight[:18, None]),
        ("first warp", ("lost-lanes", "partial-sums-not-combined", "lost-last-block"), lambda m, x: x * (x[:, :32].pow(2).sum(-1, keepdim=True) / 70 + m.eps).rsqrt() * m.weight),
        ("no root", ("root-omitted",), lambda m, x: x / (x.pow(2).mean(-1, keepdim=True) + m.eps) * m.weight),
        ("weight twice", ("scale-doubled",), lambda m, x: x * (x.pow(2).mean(-1, keepdim=True) + m.eps).rsqrt() * m.weight * m.weight),
    ),
    "softmax_scaled": (
        ("not divided", ("operator-missing",), lambda m, x: torch.exp(x * m.scale - (x * m.scale).amax(-1, keepdim=True))),
        ("log", ("wrong-activation",), lambda m, x: F.log_softmax(x * m.scale, -1)),
        ("inverse scale", ("wrong-divisor",), lambda m, x: F.softmax(x / m.scale, -1)),
        ("scale by size", ("wrong-divisor", "scale-doubled"), lambda m, x: F.softmax(x * m.scale**2, -1)),
        ("heads", ("softmax-wrong-axis",), lambda m, x: F.softmax(x * m.scale, 1)),
        ("first 32", ("lost-last-block",), lambda m, x: torch.exp(x * m.scale - (x * m.scale)[..., :32].logsumexp(-1, keepdim=True))),
        ("scaled after", ("activation-order",), lambda m, x: F.softmax(x, -1) * m.scale),
    ),
    "log_softmax": (
        ("max lost", ("max-not-added-back",), lambda m, x: x - (x - x.amax(1, keepdim=True)).exp().sum(1, keepdim=True).log()),
        ("last dim", ("softmax-wrong-axis",), lambda m, x: F.log_softmax(x, -1)),
        ("log2", ("base-2-for-e",), lambda m, x: F.log_softmax(x, 1) / math.log(2)),
        ("flat", ("softmax-wrong-axis",), lambda m, x: F.log_softmax(x.flatten(), 0).reshape(x.shape)),
        ("off by one", ("last-element-left-out",), lambda m, x: x - _truncated(x, 1, 20).logsumexp(1, keepdim=True)),
    ),
    "logsumexp_relu": (
        ("max", ("operator-missing",), lambda m, x: torch.relu(x.amax(1, keepdim=True) - 3)),
        ("added", ("sign-error",), lambda m, x: torch.relu(torch.logsumexp(x, 1, keepdim=True) + 3)),
        ("log2", ("base-2-for-e",), lambda m, x: torch.relu(torch.logsumexp(x, 1, keepdim=True) / math.log(2) - 3)),
        ("mean", ("mean-for-sum",), lambda m, x: torch.relu(x.exp().mean(1, keepdim=True).log() - 3)),
    ),
    "conv_strided": (
        ("bias twice", ("bias-doubled",), lambda m, x: m.conv(x) + m.conv.bias[:, None, None]),
        ("flipped x", ("flipped-filter",), lambda m, x: _conv(m, x, m.conv.weight.flip(3))),
        ("padding 1", ("padding-off-by-one",), lambda m, x: F.conv2d(F.pad(x, (1, 3, 1, 3)), m.conv.weight, m.conv.bias, 2, 0, 2)),
        ("padding 0", ("padding-ignored", "padding-off-by-one"), lambda m, x: F.conv2d(F.pad(x, (0, 4, 0, 4)), m.conv.weight, m.conv.bias, 2, 0, 2)),
        ("channel 0", ("wrong-channel",), lambda m, x: _conv(m, x, m.conv.weight[:, :1].expand(-1, 4, -1, -1))),
        ("last tap", ("last-element-left-out",), lambda m, x: _conv(m, x, torch.cat([m.conv.weight[..., :2], 0 * m.conv.weight[..., 2:]], -1))),
        ("bias of another", ("bias-wrong-index",), lambda m, x: _conv(m, x, bias=m.conv.bias[:1].expand(6))),
    ),
    "avg_pool": (
        ("by 4", ("pool-divisor", "wrong-divisor"), lambda m, x: F.avg_pool2d(x, 3, 2, 1) * 9 / 4),
        ("max", ("max-for-mean",), lambda m, x: F.max_pool2d(x, 3, 2, 1)),
        ("window 2", ("pool-window",), lambda m, x: F.avg_pool2d(F.pad(x, (1, 0, 1, 0)), 2, 2)),
    ),
    "max_pool": (
        ("zero", ("pool-start-value",), lambda m, x: F.max_pool2d(x, 3, 2, 1).clamp_min(0)),
        ("mean", ("wrong-activation",), lambda m, x: F.avg_pool2d(x, 3, 2, 1)),
        ("padding zero", ("pool-start-value",), lambda m, x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)),
        ("abs", ("unknown-cause", "wrong-activation"), lambda m, x: F.max_pool2d(x.abs(), 3, 2, 1)),
        ("shifted", ("padding-off-by-one", "padding-ignored"), lambda m, x: F.max_pool2d(F.pad(x, (0, 2, 0, 2), value=-math.inf), 3, 2)[..., :8, :9]),
    ),
    "linear_gelu_scale": (
        ("not scaled", ("scale-missing",), lambda m, x: F.gelu(m.linear(x))),
        ("scaled twice", ("scale-doubled",), lambda m, x: F.gelu(m.linear(x)) * m.factor**2),
        ("bias missing", ("bias-missing",), lambda m, x: F.gelu(F.linear(x, m.linear.weight)) * m.factor),
        ("bias after", ("activation-order",), lambda m, x: (F.gelu(F.linear(x, m.linear.weight)) + m.linear.bias) * m.factor),
        ("relu", ("wrong-activation",), lambda m, x: F.relu(m.linear(x)) * m.factor),
        ("sigmoid gelu", ("wrong-activation",), lambda m, x: m.linear(x) * torch.sigmoid(1.702 * m.linear(x)) * m.factor),
        ("half of inner", ("lost-last-block",), lambda m, x: F.gelu(F.linear(x[:, :48], m.linear.weight[:, :48], m.linear.bias)) * m.factor),
        ("none", ("activation-missing",), lambda m, x: m.linear(x) * m.factor),
        ("erf of x", ("wrong-activation",), lambda m, x: 0.5 * m.linear(x) * (1 + torch.erf(m.linear(x))) * m.factor),
        ("bfloat16", ("reduced-precision",), lambda m, x: F.gelu(F.linear(x.bfloat16(), m.linear.weight.bfloat16(), m.linear.bias.bfloat16()).float()) * m.factor),
        ("off by one", ("last-element-left-out",), lambda m, x: F.gelu(F.linear(x[:, :-1], m.linear.weight[:, :-1], m.linear.bias)) * m.factor),
    ),
    "linear_min_bias": (
        ("mean", ("wrong-activation", "unknown-cause"), lambda m, x: m.linear(x).mean(1, keepdim=True) + m.bias),
        ("no bias", ("bias-missing",), lambda m, x: (m.linear(x).amin(1, keepdim=True) + 0 * m.bias)),
        ("bias 0", ("bias-wrong-index", "keepdim-broadcast"), lambda m, x: m.linear(x).amin(1, keepdim=True) + m.bias[:, :1].expand_as(m.bias)),
        ("subtracted", ("sign-error",), lambda m, x: m.linear(x).amin(1, keepdim=True) - m.bias),
        ("linear bias missing", ("bias-missing",), lambda m, x: F.linear(x, m.linear.weight).amin(1, keepdim=True) + m.bias),
    ),
    "residual_block": (
        ("normed", ("residual-wrong-place",), lambda m, x: m.norm(x) + m.down(F.silu(m.up(m.norm(x))))),
        ("gelu", ("wrong-activation",), lambda m, x: x + m.down(F.gelu(m.up(m.norm(x))))),
        ("no activation", ("activation-missing",), lambda m, x: x + m.down(m.up(m.norm(x)))),
        ("sigmoid", ("wrong-activation",), lambda m, x: x + m.down(torch.sigmoid(m.up(m.norm(x))))),
        ("subtracted", ("sign-error",), lambda m, x: x - m.down(F.silu(m.up(m.norm(x))))),
        ("eps", ("eps-omitted", "wrong-eps"), lambda m, x: x + m.down(F.silu(m.up(F.layer_norm(x, (32,), m.norm.weight, m.norm.bias, 1e-2))))),
        ("affine", ("affine-ignored",), lambda m, x: x + m.down(F.silu(m.up(F.layer_norm(x, (32,)))))),
        ("up bias", ("bias-missing",), lambda m, x: x + m.down(F.silu(F.linear(m.norm(x), m.up.weight)))),
    ),
    "cumsum": (
        ("exclusive", ("scan-exclusive",), lambda m, x: x.cumsum(1) - x),
        ("tiles", ("scan-restarts",), lambda m, x: torch.cat([part.cumsum(1) for part in x.split(64, 1)], 1)),
        ("rows", ("wrong-axis",), lambda m, x: x.cumsum(0)),
        ("flat", ("wrong-axis", "scan-restarts", "scan-not-reset"), lambda m, x: x.flatten().cumsum(0).reshape(x.shape)),
        ("plain", ("operator-missing",), lambda m, x: x.clone()),
    ),
    "reverse_cumsum": (
        ("forward", ("scan-reversed", "operator-missing"), lambda m, x: x.cumsum(1)),
        ("exclusive", ("scan-exclusive",), lambda m, x: x.flip(1).cumsum(1).flip(1) - x),
        ("width", ("wrong-axis",), lambda m, x: x.flip(2).cumsum(2).flip(2)),
    ),
    "cross_entropy": (
        ("sum", ("sum-for-mean",), lambda m, x, t: F.cross_entropy(x, t, reduction="sum")),
        ("without log", ("operator-missing",), lambda m, x, t: F.nll_loss(x.softmax(1), t)),
        ("logits", ("operator-missing",), lambda m, x, t: F.nll_loss(x, t)),
    ),
    "smooth_l1": (
        ("beta 1", ("wrong-slope",), lambda m, p, t: F.smooth_l1_loss(p, t)),
        ("huber", ("wrong-divisor",), lambda m, p, t: F.huber_loss(p, t, delta=m.beta)),
        ("sum", ("sum-for-mean",), lambda m, p, t: F.smooth_l1_loss(p, t, beta=m.beta, reduction="sum")),
        ("rows", ("wrong-divisor",), lambda m, p, t: F.smooth_l1_loss(p, t, beta=m.beta, reduction="sum") / 26),
        ("mse", ("wrong-activation",), lambda m, p, t: F.mse_loss(p, t)),
    ),
    "embedding_position": (
        ("subtracted", ("sign-error",), lambda m, i: m.tokens(i) - m.positions),
        ("next", ("index-off-by-one",), lambda m, i: m.tokens((i + 1) % 50) + m.positions),
        ("no position", ("bias-missing", "residual-missing", "operator-missing"), lambda m, i: m.tokens(i)),
        ("zero", ("index-ignored",), lambda m, i: m.tokens(0 * i) + m.positions),
        ("shifted", ("index-off-by-one", "bias-wrong-index"), lambda m, i: m.tokens(i) + m.positions.roll(-1, 0)),
    ),
    "bmm_scaled": (
        ("not scaled", ("scale-missing",), lambda m, q, k: q @ k.transpose(1, 2)),
        ("batch 0", ("first-batch-only",), lambda m, q, k: (q @ k[:1].transpose(1, 2)) / 20**0.5),
        ("times", ("wrong-divisor",), lambda m, q, k: q @ k.transpose(1, 2) * 20**0.5),
        ("keys", ("wrong-divisor",), lambda m, q, k: q @ k.transpose(1, 2) / 23**0.5),
        ("misread", ("layout-misread", "transposed-operand"), lambda m, q, k: q @ k.reshape(5, 20, 23) / 20**0.5),
        ("first 16", ("lost-last-block",), lambda m, q, k: q[..., :16] @ k[..., :16].transpose(1, 2) / 20**0.5),
    ),
    "matmul_transposed": (
        ("not transposed", ("transposed-operand",), lambda m, a, b: a @ b),
        ("first 32", ("lost-last-block",), lambda m, a, b: a[:32].t() @ b[:32]),
    ),
    "depthwise_conv": (
        ("sigmoid", ("wrong-activation",), lambda m, x: torch.sigmoid(m.conv(x)[:, :, :50])),
        ("none", ("activation-missing",), lambda m, x: m.conv(x)[:, :, :50]),
        ("flipped", ("flipped-filter",), lambda m, x: F.silu(F.conv1d(x, m.conv.weight.flip(2), m.conv.bias, padding=3, groups=14)[:, :, :50])),
        ("not causal", ("padding-off-by-one",), lambda m, x: F.silu(m.conv(x)[:, :, 1:51])),
        ("no bias", ("bias-missing",), lambda m, x: F.silu(F.conv1d(x, m.conv.weight, None, padding=3, groups=14)[:, :, :50])),
    ),
    "global_mean_linear": (
        ("sum", ("sum-for-mean",), lambda m, x: m.head(x.sum((2, 3)))),
        ("max", ("max-for-mean",), lambda m, x: m.head(x.amax((2, 3)))),
        ("height", ("wrong-divisor",), lambda m, x: m.head(x.sum((2, 3)) / 6)),
        ("no bias", ("bias-missing",), lambda m, x: F.linear(x.mean((2, 3)), m.head.weight)),
        ("first row", ("lost-last-block", "unknown-cause"), lambda m, x: m.head(x[:, :, :5].sum((2, 3)) / 30)),
    ),
    "hardswish_clamp": (
        ("no clamp", ("clamp-missing", "operator-missing"), lambda m, x: F.hardswish(F.leaky_relu(x * 3, 0.2))),
        ("upper", ("clamp-missing",), lambda m, x: F.hardswish(F.leaky_relu(x * 3, 0.2)).clamp_min(-0.3)),
        ("bounds", ("clamp-bounds",), lambda m, x: F.hardswish(F.leaky_relu(x * 3, 0.2)).clamp(-0.3, 1.0)),
        ("slope", ("wrong-slope",), lambda m, x: F.hardswish(F.leaky_relu(x * 3, 0.01)).clamp(-0.3, 4.0)),
        ("unclamped", ("hardswish-unclamped",), lambda m, x: _unclamped(F.leaky_relu(x * 3, 0.2)).clamp(-0.3, 4.0)),
        ("not scaled", ("scale-missing",), lambda m, x: F.hardswish(F.leaky_relu(x, 0.2)).clamp(-0.3, 4.0)),
        ("order", ("activation-order",), lambda m, x: F.leaky_relu(F.hardswish(x * 3), 0.2).clamp(-0.3, 4.0)),
        ("silu", ("wrong-activation",), lambda m, x: F.silu(F.leaky_relu(x * 3, 0.2)).clamp(-0.3, 4.0)),
    ),
    "l2_normalize": (
        ("rows", ("wrong-axis",), lambda m, x: F.normalize(x, dim=1, eps=0.5)),
        ("no eps", ("clamp-missing",), lambda m, x: x / x.norm(dim=0, keepdim=True)),
        ("no root", ("root-omitted",), lambda m, x: x / x.square().sum(0, keepdim=True).clamp_min(0.5)),
        ("added", ("clamp-missing", "eps-inside-max"), lambda m, x: x / (x.norm(dim=0, keepdim=True) + 0.5)),
        ("inside", ("clamp-bounds", "eps-inside-max"), lambda m, x: x / x.square().sum(0, keepdim=True).clamp_min(0.5).sqrt()),
        ("l1", ("square-omitted",), lambda m, x: x / x.abs().sum(0, keepdim=True).clamp_min(0.5)),
    ),
    "row_statistics": (
        ("biased", ("biased-variance",), lambda m, x: (x.mean(1), x.std(1, correction=0), x.amax(1))),
        ("variance", ("root-omitted",), lambda m, x: (x.mean(1), x.var(1), x.amax(1))),
        ("min", ("min-for-max",), lambda m, x: (x.mean(1), x.std(1), x.amin(1))),
        ("sum", ("sum-for-mean",), lambda m, x: (x.sum(1), x.std(1), x.amax(1))),
        ("from zero", ("reduction-start-value",), lambda m, x: (x.mean(1), x.std(1), x.amax(1).clamp_min(0))),
        ("swapped", ("outputs-swapped",), lambda m, x: (x.std(1), x.mean(1), x.amax(1))),
        ("128", ("lost-last-block",), lambda m, x: (x[:, :128].sum(1) / 130, x.std(1), x.amax(1))),
    ),
    "softplus_tanh": (
        ("no elu", ("residual-missing", "operator-missing"), lambda m, x: x * torch.tanh(F.softplus(x))),
        ("alpha", ("wrong-slope",), lambda m, x: x * torch.tanh(F.softplus(x)) + F.elu(x)),
        ("no x", ("scale-missing", "operator-missing"), lambda m, x: torch.tanh(F.softplus(x)) + F.elu(x, m.alpha)),
        ("exp2", ("base-2-for-e",), lambda m, x: x * torch.tanh((1 + torch.exp2(x)).log2()) + F.elu(x, m.alpha)),
        ("sigmoid", ("wrong-activation",), lambda m, x: x * torch.sigmoid(F.softplus(x)) + F.elu(x, m.alpha)),
        ("no softplus", ("activation-missing",), lambda m, x: x * torch.tanh(x) + F.elu(x, m.alpha)),
        ("exp", ("operator-missing",), lambda m, x: x * torch.tanh(F.softplus(x)) + torch.where(x > 0, x, m.alpha * x.exp())),
        ("integers", ("truncated-to-integer",), lambda m, x: (x * torch.tanh(F.softplus(x)) + F.elu(x, m.alpha)).trunc()),
    ),
    "gated_scale": (
        ("relu6 lower", ("hardswish-unclamped",), lambda m, x, g: _gated(m, x, g) * (_gated(m, x, g) + 3).clamp_min(0) / 6),
        ("no gate", ("scale-missing", "operator-missing"), lambda m, x, g: F.hardswish(x * m.scale)),
        ("gate doubled", ("operator-doubled",), lambda m, x, g: F.hardswish(x * torch.sigmoid(torch.sigmoid(g)) * m.scale)),
        ("scale ignored", ("weight-ignored", "scale-missing"), lambda m, x, g: F.hardswish(x * torch.sigmoid(g))),
        ("scale outside", ("activation-order",), lambda m, x, g: F.hardswish(x * torch.sigmoid(g)) * m.scale),
    ),
}  # fmt: skip


def _c(values: Tensor) -> Tensor:
    return values.reshape(1, -1, 1, 1)


def _first_columns(m: Any, x: Tensor, count: int) -> Tensor:
    part, size = x[..., :count], x.shape[-1]
    mean = part.sum(-1, keepdim=True) / size
    var = (part - mean).square().sum(-1, keepdim=True) / size
    return torch.as_tensor((x - mean) * (var + m.norm.eps).rsqrt() * m.norm.weight + m.norm.bias)


def _by_group(m: Any, x: Tensor, factor: Callable[[Tensor], Tensor]) -> Tensor:
    v = x.reshape(x.shape[0], 4, -1)
    centred = v - v.mean(-1, keepdim=True)
    y = (centred * factor(centred.square().mean(-1, keepdim=True))).reshape(x.shape)
    return torch.as_tensor(y * _c(m.norm.weight) + _c(m.norm.bias))


def _first_statistics(m: Any, x: Tensor) -> Tensor:
    v = x.reshape(x.shape[0], 4, -1)
    mean, var = v[:1].mean(-1, keepdim=True), v[:1].var(-1, keepdim=True, correction=0)
    y = ((v - mean) * (var + m.norm.eps).rsqrt()).reshape(x.shape)
    return torch.as_tensor(y * _c(m.norm.weight) + _c(m.norm.bias))


def _unclamped(x: Tensor) -> Tensor:
    return x * (x + 3) / 6


def _gated(m: Any, x: Tensor, gate: Tensor) -> Tensor:
    return torch.as_tensor(x * torch.sigmoid(gate) * m.scale)
