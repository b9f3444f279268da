"""`torch.nn.RMSNorm` of a sum, over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.add_rms_norm.operator import add_rms_norm


class AddRMSNorm(nn.RMSNorm):
    """Constructor, parameters and state_dict are `torch.nn.RMSNorm`'s; it takes the two summands."""

    @classmethod
    def from_torch(cls, module: nn.RMSNorm) -> "AddRMSNorm":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(The norm of x + residual, x + residual), both of the shape (*, *normalized_shape)."""
        return add_rms_norm(x, residual, self.normalized_shape, self.weight, self.eps)
