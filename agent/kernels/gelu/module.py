"""`torch.nn.GELU` over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.gelu.operator import gelu


class GELU(nn.GELU):
    """Constructor and state_dict are `torch.nn.GELU`'s."""

    @classmethod
    def from_torch(cls, module: nn.GELU) -> "GELU":
        """The same layer, with its hooks."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Of the input's shape."""
        return gelu(input, self.approximate)
