"""Masked fills with one number: `masked_fill`, and `where` with a number, in a common form."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.rules import Site

Tensor = torch.Tensor
Change = Callable[[Tensor], Tensor]
HIDDEN = -1e4
"""Largest fill value that keeps elements out of a softmax."""


FINITE = -1e9
"""Fill value that kernels use for minus infinity: fully masked rows become means instead of NaN."""


class Fill(NamedTuple):
    """Names of the arguments of a masked fill, and the number filled in."""

    values: str
    mask: str
    number: float
    inverted: bool
    """True if the number is filled in where the mask is False."""

    def hidden(self, given: Arguments, change: Change | None = None) -> Tensor:
        """Return a mask of the elements filled with the number, after `change` of the call's mask."""
        mask = given[self.mask] if change is None else change(given[self.mask])
        return mask.logical_not() if self.inverted else torch.as_tensor(mask)

    def filled(self, number: float, change: Change | None = None) -> Rewrite:
        """Return a rewrite that fills in another number, with a changed mask if `change` is given."""

        def run(given: Arguments) -> Tensor:
            values = given[self.values]
            return torch.where(self.hidden(given, change), values.new_tensor(number), values)

        return run


def fill_of(site: Site) -> Fill | None:
    """Return the call as a fill; None if it does not fill in a single number."""
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
    """Return the call as a fill that hides elements from a softmax or maximum, else None."""
    fill = fill_of(site)
    return fill if fill is not None and fill.number <= HIDDEN else None


def _number(value: object) -> float | None:
    value = value.item() if isinstance(value, Tensor) and value.dim() == 0 else value
    return float(value) if isinstance(value, (int, float)) else None
