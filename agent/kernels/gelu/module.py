"""`torch.nn.GELU` on the shipped kernel."""

import torch
from torch import nn

from agent.kernels.gelu.operator import gelu


class GELU(nn.GELU):
    """Drop-in replacement for `torch.nn.GELU`."""

    @classmethod
    def from_torch(cls, module: nn.GELU) -> "GELU":
        """Return a layer with the settings and hooks of `module`."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the GELU, a tensor of the input's shape."""
        return gelu(input, self.approximate)
