"""`torch.nn.GroupNorm` over the shipped kernel, with an activation and a residual where they are wanted."""

from typing import Any

import torch
from torch import nn

from agent.kernels.group_norm.operator import group_norm


class GroupNorm(nn.GroupNorm):
    """Constructor, parameters and state_dict are `torch.nn.GroupNorm`'s; `act` comes in addition."""

    act: str = "none"

    def __init__(self, *arguments: Any, act: str = "none", **options: Any) -> None:
        """As `torch.nn.GroupNorm(num_groups, num_channels, eps, affine, device, dtype)`."""
        super().__init__(*arguments, **options)
        self.act = act

    @classmethod
    def from_torch(cls, module: nn.GroupNorm) -> "GroupNorm":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """act(group_norm(input) + residual), of the shape (n, num_channels, *)."""
        return group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, act=self.act, residual=residual
        )

    def extra_repr(self) -> str:
        """With the activation, where there is one."""
        return super().extra_repr() + ("" if self.act == "none" else f", act={self.act}")
