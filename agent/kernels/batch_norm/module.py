"""`torch.nn.BatchNorm1d` to `3d` with activation and residual; the shipped kernel computes in evaluation."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from agent.kernels.acting import Acting
from agent.kernels.batch_norm.operator import batch_norm
from agent.kernels.group_norm import activation


class _Evaluated(Acting, _BatchNorm):
    """Torch's BatchNorm with an `act`, and with torch's parameters, buffers and state_dict."""

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Return act(batch_norm(input) + residual), of the input's shape. In training mode torch computes the
        norm.
        """
        if self.training or self.running_mean is None or self.running_var is None:
            y = super().forward(input)
            return activation.value(y if residual is None else y + residual, self.act)
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        return batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, self.eps, act=self.act,
            residual=residual,
        )  # fmt: skip


class BatchNorm1d(_Evaluated, nn.BatchNorm1d):
    """BatchNorm of [n, channels] or [n, channels, length]."""


class BatchNorm2d(_Evaluated, nn.BatchNorm2d):
    """BatchNorm of [n, channels, height, width]."""


class BatchNorm3d(_Evaluated, nn.BatchNorm3d):
    """BatchNorm of [n, channels, depth, height, width]."""
