"""`torch.nn.GroupNorm` on the shipped kernel, with an optional activation and residual."""

from typing import Any

import torch
from torch import nn

from agent.kernels.group_norm.operator import group_norm


class GroupNorm(nn.GroupNorm):
    """Drop-in replacement for `torch.nn.GroupNorm` with an additional `act`, and with torch's state_dict."""

    act: str = "none"

    def __init__(self, *arguments: Any, act: str = "none", **options: Any) -> None:
        """Take the arguments of `torch.nn.GroupNorm` (num_groups, num_channels, eps, affine, device, dtype)
        and `act`.
        """
        super().__init__(*arguments, **options)
        self.act = act

    @classmethod
    def from_torch(cls, module: nn.GroupNorm) -> "GroupNorm":
        """Return a layer that shares the parameters of `module` instead of copying them."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """Return act(group_norm(input) + residual) for an input of shape (n, num_channels, *)."""
        return group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, act=self.act, residual=residual
        )

    def extra_repr(self) -> str:
        """Append the activation, if any, to the representation of `torch.nn.GroupNorm`."""
        return super().extra_repr() + ("" if self.act == "none" else f", act={self.act}")
