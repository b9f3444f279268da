"""Fused calls for BatchNorm and InstanceNorm with an activation or a sum."""

import torch
from torch import nn

from agent.kernels.batch_norm.module import BatchNorm1d, BatchNorm2d, BatchNorm3d
from agent.kernels.batch_norm.operator import batch_norm
from agent.kernels.group_norm.activation import value as activated
from agent.kernels.instances import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, instance_norm

BATCHES = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNorm1d, BatchNorm2d, BatchNorm3d)
INSTANCES = (
    nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
)  # fmt: skip


def batch_norm_act(x: torch.Tensor, norm: nn.BatchNorm2d, act: str) -> torch.Tensor:
    """Return act(norm(x)). In training the norm falls back to torch."""
    if norm.training or norm.running_mean is None or norm.running_var is None:
        return activated(norm(x), act)
    return batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps, act=act)


def batch_norm_add_act(
    x: torch.Tensor, residual: torch.Tensor, norm: nn.BatchNorm2d, act: str
) -> torch.Tensor:
    """Return act(norm(x) + residual). In training the norm falls back to torch."""
    if norm.training or norm.running_mean is None or norm.running_var is None:
        return activated(norm(x) + residual, act)
    statistics = (norm.running_mean, norm.running_var)
    return batch_norm(x, *statistics, norm.weight, norm.bias, norm.eps, act=act, residual=residual)


def instance_norm_act(x: torch.Tensor, norm: nn.InstanceNorm2d, act: str) -> torch.Tensor:
    """Return act(norm(x)). Running statistics and unbatched images fall back to torch."""
    if not _is_of_images(x, norm):
        return activated(norm(x), act)
    return instance_norm(x, norm.weight, norm.bias, norm.eps, act=act)


def instance_norm_add_act(
    x: torch.Tensor, residual: torch.Tensor, norm: nn.InstanceNorm2d, act: str
) -> torch.Tensor:
    """Return act(norm(x) + residual). Running statistics and unbatched images fall back to torch."""
    if not _is_of_images(x, norm):
        return activated(norm(x) + residual, act)
    return instance_norm(x, norm.weight, norm.bias, norm.eps, act=act, residual=residual)


def _is_of_images(x: torch.Tensor, norm: nn.InstanceNorm2d) -> bool:
    rank = norm._get_no_batch_dim() + 1
    return not norm.track_running_stats and x.dim() == rank and x.shape[1] == norm.num_features
