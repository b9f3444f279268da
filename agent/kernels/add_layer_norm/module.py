"""`torch.nn.LayerNorm` of x + residual on the shipped kernel."""

import torch
from torch import nn

from agent.kernels.add_layer_norm.operator import add_layer_norm


class AddLayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` that takes x and residual, with torch's parameters and state_dict."""

    @classmethod
    def from_torch(cls, module: nn.LayerNorm) -> "AddLayerNorm":
        """Return a layer that shares the parameters of `module` instead of copying them."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(  # type: ignore[override]
        self, x: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of x + residual, and x + residual. Shapes are (*, *normalized_shape)."""
        return add_layer_norm(x, residual, self.normalized_shape, self.weight, self.bias, self.eps)
