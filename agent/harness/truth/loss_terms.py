"""Losses that torch computes in one operator, decomposed into their terms and a sum."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from agent.harness.truth.summation import total

Arguments = dict[str, Any]
NONE, MEAN = 0, 1
"""torch's numbers for the reductions `none` and `mean`."""


def _reduced(name: str, given: Arguments) -> torch.Tensor:
    terms: torch.Tensor = _call(name, given, NONE)
    if given["reduction"] == NONE:
        return terms
    count = terms.numel() if given["reduction"] == MEAN else 1
    result = total(terms, None, divisor=count)
    return (result / count).to(terms.dtype)


def _chosen(name: str, given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a negative log likelihood and its weight.

    The mean divides by the total weight of the targets that are not ignored.
    """
    if given["reduction"] == NONE:
        native: tuple[torch.Tensor, torch.Tensor] = _call(name, given, NONE)
        return native
    terms, weight = _call(name, given, NONE)[0], _call(name, given, MEAN)[1]
    result = total(terms, None, divisor=float(weight) if given["reduction"] == MEAN else 1.0)
    return (result / weight if given["reduction"] == MEAN else result).to(terms.dtype), weight


def _call(name: str, given: Arguments, reduction: int) -> Any:
    func = getattr(torch.ops.aten, name).default
    return func(**{**given, "reduction": reduction})


_PLAIN = (
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
    "multi_margin_loss",
)
_CHOSEN = ("nll_loss_forward", "nll_loss2d_forward")
RULES: dict[str, Callable[[Arguments], Any]] = {
    **{f"aten::{name}": partial(_reduced, name) for name in _PLAIN},
    **{f"aten::{name}": partial(_chosen, name) for name in _CHOSEN},
}
"""Functions that compute a loss with another order of summation, by operator."""
