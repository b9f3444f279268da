"""BatchNorm with an activation or a sum, as the call in the place of a pair."""

import torch
from torch import nn

from agent.kernels.batch_norm.module import BatchNorm1d, BatchNorm2d, BatchNorm3d
from agent.kernels.batch_norm.operator import batch_norm
from agent.kernels.group_norm.activation import value as activated

BATCHES = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNorm1d, BatchNorm2d, BatchNorm3d)


def batch_norm_act(x: torch.Tensor, norm: nn.BatchNorm2d, act: str) -> torch.Tensor:
    """act(norm(x)); in training the norm is torch's."""
    if norm.training or norm.running_mean is None or norm.running_var is None:
        return activated(norm(x), act)
    return batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps, act=act)


def batch_norm_add_act(
    x: torch.Tensor, residual: torch.Tensor, norm: nn.BatchNorm2d, act: str
) -> torch.Tensor:
    """act(norm(x) + residual), likewise."""
    if norm.training or norm.running_mean is None or norm.running_var is None:
        return activated(norm(x) + residual, act)
    statistics = (norm.running_mean, norm.running_var)
    return batch_norm(x, *statistics, norm.weight, norm.bias, norm.eps, act=act, residual=residual)
