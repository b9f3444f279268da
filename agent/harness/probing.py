"""Whether a problem can tell right answers from wrong ones: wrong ones through the judge's own comparator.

Runs in the oracle's process, on the reference alone. Every wrong answer of `agent.harness.mutants` is tried
on the stated distribution; what passes goes on to the families of inputs that each candidate meets, and then
to those of `protocol.TIGHTENING`, which join the protocol of this problem where they are needed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from agent.harness import budget, mutants, protocol
from agent.harness.reference import Draw, Reference, tree_map

SAME = 4 * torch.finfo(torch.float32).eps
"""A mutant whose float64 output is no further from the truth, relative to its size, is the same function."""

Answer = Callable[[Draw], Any]


def probe(reference: Reference, seed: int) -> dict[str, Any]:
    """How many wrong answers were tried and refused, which pass, and the families that it takes.

    `equivalent` are mutants that float32 cannot tell from the reference on any of the inputs tried.
    """
    tightened: list[str] = []
    alive: dict[str, Answer] | None = None
    different: set[str] = set()
    tried = 0
    for number, family in enumerate((None, *protocol.FAMILIES, *protocol.TIGHTENING)):
        if alive is not None and not alive:
            break
        reference.perturb(seed + number)
        draw = _usable(reference, seed + number, family)
        if draw is None:
            continue
        if alive is None:
            alive = _answers(reference, draw)
            tried = len(alive)
        passing = {name: answer for name, answer in alive.items() if _passes(answer, draw, name, different)}
        if family in protocol.TIGHTENING and len(passing) < len(alive):
            tightened.append(family)
        alive = passing
    left = alive or {}
    return {
        "tried": tried,
        "killed": tried - len(left),
        "survivors": [name for name in left if name in different],
        "equivalent": [name for name in left if name not in different],
        "tightened": tightened,
    }


def _usable(reference: Reference, seed: int, family: str | None) -> Draw | None:
    try:
        draw = reference.draw(seed, family)
    except Exception:
        if family is None:
            raise
        return None
    return draw if draw is not None and (family is None or draw.expected.obstacle() is None) else None


def _answers(reference: Reference, draw: Draw) -> dict[str, Answer]:
    """Every wrong answer by name, as a function of a draw."""
    answers: dict[str, Answer] = {}
    for name, _ in mutants.null_answers(draw.expected.native, draw.inputs):
        answers[name] = partial(_null, name)
    stale = tree_map(torch.clone, draw.expected.native)
    if draw.inputs:
        other = reference.inputs(reference.seed + 1, None)
        with torch.no_grad():
            stale = reference.native(other or [])[0]
        answers["the answer to other inputs"] = lambda at: stale
    if any(t.dtype is torch.float32 for t in budget.leaves(draw.expected.native)):
        answers["computed in float16"] = partial(_halved, reference)
    sites = mutants.Sites()
    with torch.no_grad(), sites:
        reference.truth(tree_map(torch.clone, draw.inputs))
    for site in sites.chosen():
        answers[str(site)] = partial(_mutated, reference, site)
    return answers


def _null(name: str, draw: Draw) -> Any:
    return dict(mutants.null_answers(draw.expected.native, draw.inputs))[name]


def _halved(reference: Reference, draw: Draw) -> Any:
    with torch.no_grad(), mutants.Halved():
        return reference.native(tree_map(torch.clone, draw.inputs))[0]


def _mutated(reference: Reference, site: mutants.Site, draw: Draw) -> Any:
    with torch.no_grad(), mutants.Mutated(site):
        return reference.truth(tree_map(torch.clone, draw.inputs))


def _passes(answer: Answer, draw: Draw, name: str, different: set[str]) -> bool:
    """Whether the comparator takes the answer for right; notes in `different` that it is another one."""
    try:
        given = answer(draw)
        outputs = budget.leaves(given)
        wanted = budget.leaves(draw.expected.native)
        if [t.shape for t in outputs] != [t.shape for t in wanted]:
            return False
        rounded = [y.to(want.dtype) for y, want in zip(outputs, wanted, strict=True)]
        passes = draw.expected.accepts(rounded)
        if passes and (not name.endswith(mutants.CHANGES) or _is_different(outputs, draw)):
            different.add(name)
        return passes
    except RuntimeError:
        # An operator that cannot run so is no answer that passes.
        return False


def _is_different(outputs: list[torch.Tensor], draw: Draw) -> bool:
    for y, r64 in zip(outputs, budget.leaves(draw.expected.truth), strict=True):
        if not r64.is_floating_point():
            if not torch.equal(y.to(r64.dtype), r64):
                return True
            continue
        keep = torch.isfinite(r64)
        scale = r64[keep].square().mean().sqrt() if bool(keep.any()) else torch.zeros(())
        apart = (y.double() - r64).abs() > SAME * torch.maximum(r64.abs(), scale)
        if bool((apart & keep).any()) or not torch.equal(torch.isfinite(y), keep):
            return True
    return False
