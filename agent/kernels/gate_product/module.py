"""SwiGLU and GeGLU as a module without parameters."""

import torch
from torch import nn

from agent.kernels.gate_product.operator import gate_product, gate_product_halves


class GateProduct(nn.Module):
    """Module that returns act(gate) * value of two tensors or of the halves of one."""

    def __init__(self, act: str = "silu", gate_first: bool = True) -> None:
        """Set act (silu, gelu or gelu_tanh); with `gate_first` the first half of a tensor is the gate."""
        super().__init__()
        self.act, self.gate_first = act, gate_first

    def forward(self, x: torch.Tensor, value: torch.Tensor | None = None) -> torch.Tensor:
        """Return act(x) * value, or without value the product of the halves of x."""
        if value is None:
            return gate_product_halves(x, self.act, self.gate_first)
        return gate_product(x, value, self.act)

    def extra_repr(self) -> str:
        """Return the constructor's arguments, for torch's representation of a model."""
        return f"act={self.act}, gate_first={self.gate_first}"
