"""`torch.nn.Softmax` over the shipped kernel."""

import torch
from torch import nn

from agent.kernels.softmax.operator import softmax


class Softmax(nn.Softmax):
    """Constructor and state_dict are `torch.nn.Softmax`'s; `dim` has to be given."""

    @classmethod
    def from_torch(cls, module: nn.Softmax) -> "Softmax":
        """The same layer, with its hooks."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Of the input's shape."""
        return super().forward(input) if self.dim is None else softmax(input, self.dim)
