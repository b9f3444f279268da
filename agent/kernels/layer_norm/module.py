"""`torch.nn.LayerNorm` over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.layer_norm.operator import layer_norm


class LayerNorm(nn.LayerNorm):
    """Constructor, parameters and state_dict are `torch.nn.LayerNorm`'s."""

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "LayerNorm":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Of the shape (*, *normalized_shape)."""
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
