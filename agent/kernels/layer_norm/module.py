"""`torch.nn.LayerNorm` on the shipped kernel."""

import torch
from torch import nn

from agent.kernels.layer_norm.operator import layer_norm


class LayerNorm(nn.LayerNorm):
    """Drop-in replacement for `torch.nn.LayerNorm` with the same parameters and state_dict."""

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "LayerNorm":
        """Return a layer that shares the parameters of `module` instead of copying them."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the norm of input, whose shape is (*, *normalized_shape)."""
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
