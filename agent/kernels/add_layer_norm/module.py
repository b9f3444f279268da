"""`torch.nn.LayerNorm` of a sum, over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.add_layer_norm.operator import add_layer_norm


class AddLayerNorm(nn.LayerNorm):
    """Constructor, parameters and state_dict are `torch.nn.LayerNorm`'s; it takes the two summands."""

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "AddLayerNorm":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(The norm of x + residual, x + residual), both of the shape (*, *normalized_shape)."""
        return add_layer_norm(x, residual, self.normalized_shape, self.weight, self.bias, self.eps)
