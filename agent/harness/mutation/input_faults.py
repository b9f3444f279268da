"""Wrong answers that ignore one input by putting stated values, a causal mask or a constant in its place."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from agent.harness.truth import discrete
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference

MOST = 8
"""Maximum number of inputs for which wrong answers are made; each answer ignores one input."""

Answer = Callable[[Draw], Any]


def answers(reference: Reference, draw: Draw) -> dict[str, Answer]:
    """Return functions that compute a wrong answer for a draw, by the answer's name."""
    other = reference.inputs(reference.seed + 1, None)
    if other is None:
        return {}
    found: dict[str, Answer] = {}
    for number, stated in list(enumerate(tree_flatten(other)[0]))[:MOST]:
        if not isinstance(stated, (torch.Tensor, bool, int, float)):
            continue
        found[f"input {number} ignored"] = partial(_answer, reference, number, stated)
        if isinstance(stated, torch.Tensor) and stated.numel() and discrete.is_discrete(stated):
            low, high = stated.amin(), stated.amax()
            if stated.dim() > 1 and stated.shape[-1] == stated.shape[-2] and bool(low != high):
                causal = torch.ones(stated.shape, dtype=torch.bool, device=stated.device).tril()
                for name, mask in (("", causal), (" above the diagonal", ~causal)):
                    value = torch.where(mask, high, low)
                    found[f"input {number}{name} taken for causal"] = partial(
                        _answer, reference, number, value
                    )
            constant = torch.full_like(stated, high.item())
            found[f"input {number} taken for constant"] = partial(_answer, reference, number, constant)
    return found


def _answer(reference: Reference, number: int, value: Any, draw: Draw) -> Any:
    inputs, structure = tree_flatten(tree_map(torch.clone, draw.inputs))
    inputs[number] = value.clone() if isinstance(value, torch.Tensor) else value
    with torch.no_grad():
        return reference.truth(tree_unflatten(inputs, structure))
