"""SwiGLU and GeGLU as a module without parameters."""

import torch
from torch import nn

from agent.kernels.gate_product.operator import gate_product, gate_product_halves


class GateProduct(nn.Module):
    """act(gate) * value, of two tensors or of the halves of one."""

    def __init__(self, act: str = "silu", gate_first: bool = True) -> None:
        """act is silu, gelu or gelu_tanh; gate_first says which half of one tensor is the gate."""
        super().__init__()
        self.act, self.gate_first = act, gate_first

    def forward(self, x: torch.Tensor, value: torch.Tensor | None = None) -> torch.Tensor:
        """Of x alone: of its halves; else x is the gate."""
        if value is None:
            return gate_product_halves(x, self.act, self.gate_first)
        return gate_product(x, value, self.act)

    def extra_repr(self) -> str:
        """As torch shows it in a model."""
        return f"act={self.act}, gate_first={self.gate_first}"
