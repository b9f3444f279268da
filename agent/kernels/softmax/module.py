"""`torch.nn.Softmax` on the shipped kernel."""

import torch
from torch import nn

from agent.kernels.softmax.operator import softmax


class Softmax(nn.Softmax):
    """Drop-in replacement for `torch.nn.Softmax`. Without `dim` it runs torch's implementation."""

    @classmethod
    def from_torch(cls, module: nn.Softmax) -> "Softmax":
        """Return a layer with the settings and hooks of `module`."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the softmax, a tensor of the input's shape."""
        return super().forward(input) if self.dim is None else softmax(input, self.dim)
