"""`torch.nn.Linear` over the shipped kernel, which splits its weight again only when that has changed."""

from typing import Any

import torch
from torch import nn

from agent.kernels.linear_fp32x3 import prepared, product
from agent.kernels.linear_fp32x3.operator import by_split


class LinearFP32x3(nn.Linear):
    """Constructor, parameters and state_dict are `torch.nn.Linear`'s; `precision` comes in addition.

    The split weight takes as much memory as the weight. A change through `weight.data` goes unseen
    (`prepared`).
    """

    precision: str = "fp32x3"

    def __init__(self, *arguments: Any, precision: str = "fp32x3", **options: Any) -> None:
        """As `torch.nn.Linear(in_features, out_features, bias, device, dtype)`. Raises ValueError."""
        product.number_of(precision)
        super().__init__(*arguments, **options)
        self.precision = precision

    @classmethod
    def from_torch(cls, module: nn.Linear) -> "LinearFP32x3":
        """The same layer over the same parameters, which are shared and not copied."""
        made = cls.__new__(cls)
        made.__dict__.update(module.__dict__)
        return made

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """[*, in_features] -> [*, out_features]."""
        cached = prepared.remembered(self.weight) if self.precision == "fp32x3" else None
        return by_split(input, self.weight, self.bias, cached, self.precision)

    def extra_repr(self) -> str:
        """With the precision, where it is not the usual one."""
        return super().extra_repr() + ("" if self.precision == "fp32x3" else f", precision={self.precision}")
