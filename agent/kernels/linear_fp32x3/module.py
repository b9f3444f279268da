"""`torch.nn.Linear` on the shipped kernel. It splits the weight again only when the weight has changed."""

from typing import Any

import torch
from torch import nn

from agent.kernels.linear_fp32x3 import prepared, product
from agent.kernels.linear_fp32x3.operator import by_split


class LinearFP32x3(nn.Linear):
    """`torch.nn.Linear` with a `precision`. Parameters and state_dict are torch's.

    The split weight takes as much memory as the weight. A change through `weight.data` is not noticed; see
    `prepared`.
    """

    precision: str = "fp32x3"

    def __init__(self, *arguments: Any, precision: str = "fp32x3", **options: Any) -> None:
        """Take the arguments of `torch.nn.Linear`. Raises ValueError for an unknown precision."""
        product.number_of(precision)
        super().__init__(*arguments, **options)
        self.precision = precision

    @classmethod
    def from_torch(cls, module: nn.Linear) -> "LinearFP32x3":
        """Return this layer on the parameters of torch's `module`, shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return [*, out_features] for input [*, in_features]."""
        cached = prepared.remembered(self.weight) if self.precision == "fp32x3" else None
        return by_split(input, self.weight, self.bias, cached, self.precision)

    def extra_repr(self) -> str:
        """Return torch's text, with the precision where it is not fp32x3."""
        return super().extra_repr() + ("" if self.precision == "fp32x3" else f", precision={self.precision}")
