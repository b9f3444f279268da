"""InstanceNorm: GroupNorm's kernel with one group per channel, or BatchNorm's with running statistics."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.instancenorm import _InstanceNorm

from agent.kernels.acting import Acting
from agent.kernels.batch_norm.operator import batch_norm
from agent.kernels.group_norm import activation
from agent.kernels.group_norm.operator import group_norm


def instance_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5,
    *, act: str = "none", residual: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return act(F.instance_norm(x, weight=weight, bias=bias, eps=eps) + residual) for x [n, channels, ...].

    Statistics are those of each image and channel, forward and backward. The call equals `group_norm` with
    one group per channel, and the same calls are supported. Raises the errors of torch, also for planes of
    one element.
    """
    if x.dim() < 3 or x.numel() <= x.shape[0] * x.shape[1]:
        y = F.instance_norm(x, weight=weight, bias=bias, eps=eps)
        return activation.value(y if residual is None else y + residual, act)
    return group_norm(x, x.shape[1], weight, bias, eps, act=act, residual=residual)


class _Shipped(Acting, _InstanceNorm):
    """Base with torch's constructor, parameters, buffers and state_dict, and the argument `act`."""

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Return act(instance_norm(input) + residual), of the input's shape.

        Unbatched input falls back to torch, and so does training with running statistics.
        """
        rank = self._get_no_batch_dim() + 1  # type: ignore[no-untyped-call]
        tracked = self.track_running_stats
        if input.dim() != rank or input.shape[1] != self.num_features or (tracked and self.training):
            y = super().forward(input)
            return activation.value(y if residual is None else y + residual, self.act)
        weight, bias, eps, act = self.weight, self.bias, self.eps, self.act
        if tracked and self.running_mean is not None and self.running_var is not None:
            statistics = (self.running_mean, self.running_var)
            return batch_norm(input, *statistics, weight, bias, eps, act=act, residual=residual)
        return instance_norm(input, weight, bias, eps, act=act, residual=residual)


class InstanceNorm1d(_Shipped, nn.InstanceNorm1d):
    """InstanceNorm of [n, channels, length]."""


class InstanceNorm2d(_Shipped, nn.InstanceNorm2d):
    """InstanceNorm of [n, channels, height, width]."""


class InstanceNorm3d(_Shipped, nn.InstanceNorm3d):
    """InstanceNorm of [n, channels, depth, height, width]."""
