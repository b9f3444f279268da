"""Wrong sums for `mutants`: reductions of many terms to few results, in which a fault may hardly show.

Some terms are left out, or terms or partial sums are rounded to a shorter dtype. The finer faults (`FINE`)
can be smaller than float32's rounding errors when the terms are summed in another order.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from agent.diagnosis.tape import bound
from agent.harness.truth.summation import FEW, Short, taken
from agent.harness.truth.summation_order import rule_of
from agent.harness.worker.memory_guards import leaves

BLOCK = 256
"""Maximum number of terms that are left out together, as by one block; at most a quarter of the terms."""
LEAST = 64
"""Minimum number of terms per result for a reduction to be mutated."""
_SUMS = {
    "sum", "mean", "linalg_vector_norm", "var", "std", "var_mean", "dot", "mse_loss", "smooth_l1_loss",
    "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss",
    "nll_loss_forward",
}  # fmt: skip

Rewrite = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def changes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> list[str]:
    """Return the names of possible faults of an operator call, or [] if it does not sum many terms."""
    if func._schema.name.split("::")[-1] not in _SUMS or rule_of(func, args, kwargs) is None:
        return []
    terms = leaves(list(bound(func, args, kwargs).values()))[0]
    results = leaves(result)[0].numel()
    return list(REWRITES) if results <= FEW and terms.numel() >= LEAST * results else []


def _on_terms(change: Callable[[torch.Tensor], torch.Tensor]) -> Rewrite:
    """Return a rewrite that applies `change` to every operand with the shape of the summed terms."""

    def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = bound(func, args, kwargs)
        if func._schema.name == "aten::nll_loss_forward":
            # A term is a row, of which the target picks one element.
            rows = given["self"]
            kept = change(torch.ones_like(rows[:, :1]))
            return func(**{**given, "self": change(rows) if bool(kept.all()) else rows * kept})
        shape = leaves(list(given.values()))[0].shape
        changed = {
            name: change(value) if isinstance(value, torch.Tensor) and value.shape == shape else value
            for name, value in given.items()
        }
        positional = [a.name for a in func._schema.arguments if not a.kwarg_only and a.name in changed]
        named = {
            a.name: changed[a.name] for a in func._schema.arguments if a.kwarg_only and a.name in changed
        }
        return func(*(changed[name] for name in positional), **named)

    return run


def _without(begin: Callable[[int], int], x: torch.Tensor) -> torch.Tensor:
    """Return `x` with up to `BLOCK` terms set to zero, the first at index `begin(count)`."""
    left = x.clone(memory_format=torch.contiguous_format).reshape(-1)
    first = begin(x.numel())
    left[first : first + min(BLOCK, math.ceil(x.numel() / 4))] = 0
    return left.reshape(x.shape)


def _rounded(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(x.dtype) if x.is_floating_point() else x


def _short(dtype: torch.dtype) -> Rewrite:
    def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        rule = rule_of(func, args, kwargs)
        assert rule is not None
        with taken(Short(dtype)):
            return rule()

    return run


REWRITES: dict[str, Rewrite] = {
    "a block of terms left out": _on_terms(partial(_without, lambda count: count // 2)),
    "the last term left out": _on_terms(partial(_without, lambda count: count - 1)),
    "terms in bfloat16": _on_terms(_rounded),
    "summed in bfloat16": _short(torch.bfloat16),
    "summed in float16": _short(torch.float16),
}
FINE = ("the last term left out", "terms in bfloat16")
"""Faults that do not refuse a problem. Draws are added to detect them, and survivors are reported."""
