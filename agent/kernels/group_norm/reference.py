"""GroupNorm in torch operators: the CPU implementation of the operator, and the reference in tests."""

from collections.abc import Sequence

import torch

from agent.kernels.group_norm import activation
from agent.kernels.group_norm.layout import format_of
from agent.kernels.operators import Gradients, Tensors


def forward(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, bias: torch.Tensor | None,
    groups: int, eps: float, act: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    """Return y, mean and rstd; mean and rstd are [n, groups]."""
    grouped = _exact(x).reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1)
    rstd = ((grouped - mean[..., None]).square().mean(-1) + eps).rsqrt()
    z = _affine(_normal(x, mean, rstd), weight, bias, residual)
    y = activation.value(z, act).to(x.dtype)
    return _laid_out(y, x), mean.contiguous(), rstd.contiguous()


def backward(
    grad: torch.Tensor, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, mean: torch.Tensor, rstd: torch.Tensor, groups: int, act: str,
    wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    """Return the gradients of x, residual, weight and bias; None for an unwanted gradient."""
    normal = _normal(x, mean, rstd)
    dz = _exact(grad)
    if act != "none":
        dz = dz * activation.slope(_affine(normal, weight, bias, residual), act)
    over = [d for d in range(x.dim()) if d != 1]
    scaled = (dz if weight is None else dz * _by_channel(weight, x)).reshape(x.shape[0], groups, -1)
    grouped = normal.reshape(x.shape[0], groups, -1)
    inner = scaled - scaled.mean(-1, keepdim=True) - grouped * (scaled * grouped).mean(-1, keepdim=True)
    dx = (rstd[..., None] * inner).reshape(x.shape)
    made = (dx, dz, (dz * normal).sum(over), dz.sum(over))
    places = (x, x, weight, bias)
    return tuple(
        None if not want or place is None else _laid_out(value.to(place.dtype), place)
        for value, place, want in zip(made, places, wanted, strict=True)
    )


def _exact(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _normal(x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor) -> torch.Tensor:
    grouped = _exact(x).reshape(*mean.shape, -1)
    return ((grouped - mean[..., None]) * rstd[..., None]).reshape(x.shape)


def _by_channel(parameter: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return _exact(parameter).view(1, -1, *[1] * (x.dim() - 2))


def _affine(
    normal: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> torch.Tensor:
    z = normal
    if weight is not None:
        z = z * _by_channel(weight, normal)
    if bias is not None:
        z = z + _by_channel(bias, normal)
    return z if residual is None else z + _exact(residual)


def _laid_out(value: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return value.contiguous(memory_format=format_of(place))
