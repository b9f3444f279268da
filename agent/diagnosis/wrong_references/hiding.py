"""Fills of a mask with one number: `masked_fill`, and a `where` of values and a number, as one thing."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.rules import Site

Tensor = torch.Tensor
Change = Callable[[Tensor], Tensor]
HIDDEN = -1e4
"""A mask that puts a value below this in keeps elements out of a softmax."""


FINITE = -1e9
"""What kernels put there for minus infinity: rows that are masked wholly become means, not NaN."""


class Fill(NamedTuple):
    """Where the arguments stand."""

    values: str
    mask: str
    number: float
    inverted: bool
    """Whether the number stands where the mask is not set."""

    def hidden(self, given: Arguments, change: Change | None = None) -> Tensor:
        """Where the number stands, of the mask or of what is made of it."""
        mask = given[self.mask] if change is None else change(given[self.mask])
        return mask.logical_not() if self.inverted else torch.as_tensor(mask)

    def filled(self, number: float, change: Change | None = None) -> Rewrite:
        """The call with another number, and with another mask."""

        def run(given: Arguments) -> Tensor:
            values = given[self.values]
            return torch.where(self.hidden(given, change), values.new_tensor(number), values)

        return run


def fill_of(site: Site) -> Fill | None:
    """What a call fills; None where it takes no single number."""
    if site.call.name == "masked_fill":
        number = _number(site.given["value"])
        return None if number is None else Fill("self", "mask", number, inverted=False)
    if site.call.name == "where":
        for values, other, inverted in (("self", "other", True), ("other", "self", False)):
            number = _number(site.given[other])
            if number is not None and isinstance(site.given[values], Tensor):
                return Fill(values, "condition", number, inverted)
    return None


def hiding(site: Site) -> Fill | None:
    """The same where it puts elements out of a softmax, or of another maximum."""
    fill = fill_of(site)
    return fill if fill is not None and fill.number <= HIDDEN else None


def _number(value: object) -> float | None:
    value = value.item() if isinstance(value, Tensor) and value.dim() == 0 else value
    return float(value) if isinstance(value, (int, float)) else None
