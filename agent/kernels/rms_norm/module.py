"""`torch.nn.RMSNorm` over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.rms_norm.operator import rms_norm


class RMSNorm(nn.RMSNorm):
    """Constructor, parameters and state_dict are `torch.nn.RMSNorm`'s."""

    @classmethod
    def from_torch(cls, module: nn.RMSNorm) -> "RMSNorm":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the shape (*, *normalized_shape)."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)
