"""Mutation testing of a problem: wrong answers go through the judge's own comparator.

The test shows if the problem can tell right answers from wrong ones. It needs the reference only and runs in
the oracle's process. Every wrong answer of `agent.harness.mutation.mutants` is tried on the stated
distribution. Answers that pass are tried on the families of inputs on which each candidate is judged. Those
that still pass are tried on the families of `protocol.TIGHTENING`. A family that refuses one of them joins
the problem's protocol.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch

from agent.diagnosis import preconditions
from agent.harness.mutation import equivalence, input_faults, lost_terms, mutants
from agent.harness.task import protocol
from agent.harness.truth import perturbation, tolerance
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.harness.truth.user_code import ReferenceRaised

SAME = 4 * torch.finfo(torch.float32).eps
"""Maximum relative distance from the truth of a mutant that counts as equal to the reference."""

CLOSE = 1e-5
"""Relative error of an element that the tolerance grants every right answer."""
MANY = 8
"""Number of operators with an eps, weight or bias from which a fault in only one may be too small to show."""

HALVED = "computed in float16"

Answer = Callable[[Draw], Any]


class Seen(NamedTuple):
    """Names of wrong answers that differed from the truth on a draw on which they passed."""

    different: set[str]
    """Names of answers that differed by more than `SAME`."""
    apart: set[str]
    """Names of answers with an element whose relative error exceeded `CLOSE`."""
    large: set[str]
    """Names of answers whose relative root mean square error exceeded `tolerance.UNSTABLE`."""


def probe(reference: Reference, seed: int) -> dict[str, Any]:
    """Return counts of the wrong answers tried and refused, those that pass, and the families needed.

    `equivalent` lists mutants that float32 cannot tell from the reference, or that are within a random
    reference's spread. It also lists null answers that equal the reference's function
    (`agent.harness.mutation.equivalence`). `unresolved` lists faults as of `_too_fine`. `trivial` holds
    sentences on a reference that a null answer computes. `strength` is the lowest strength of a perturbation.
    """
    tightened: list[str] = []
    alive: dict[str, Answer] | None = None
    seen = Seen(set(), set(), set())
    order: list[str | None] = [None, *protocol.FAMILIES, *protocol.VARYING, *protocol.TIGHTENING]
    joined: tuple[str, ...] = ()
    tried, number, layers = 0, -1, 0
    while order and alive != {}:
        number, family = number + 1, order.pop(0)
        reference.perturb(seed + number)
        draw = _usable(reference, seed + number, family)
        if draw is None:
            continue
        if alive is None:
            alive, layers = _answers(reference, draw)
            tried = len(alive)
            joined = protocol.DOMINATED if _few(draw) else ()
            order = [
                *protocol.FAMILIES,
                *protocol.VARYING,
                *joined,
                *joined,
            ]  # as in judging
            order += [name for name in protocol.TIGHTENING if name not in joined]
        passing = {name: answer for name, answer in alive.items() if _passes(answer, draw, name, seen)}
        if family in protocol.TIGHTENING and family not in joined and len(passing) < len(alive):
            tightened.append(family)
        alive = passing
    left = alive or {}
    different, unresolved = seen.different, _too_fine(left, seen, layers)
    # Counts and quantised values are exact in float16, so computing them in float16 may be right.
    null = [
        name for name in left if not name.endswith(mutants.CHANGES) and (name != HALVED or name in different)
    ]
    same = _right(reference, left, set(null), different - set(unresolved), seed + 1 + number)
    survivors = [
        name
        for name in left
        if name not in unresolved and name not in same and (name in different or name in null)
    ]
    return {
        "tried": tried,
        "killed": tried - len(left),
        "survivors": survivors,
        "equivalent": [name for name in left if name not in survivors and name not in unresolved],
        "unresolved": unresolved,
        "trivial": equivalence.words(same),
        "tightened": tightened,
        "strength": reference.least_strength,
    }


def _few(draw: Draw) -> bool:
    given, made = tolerance.leaves(draw.inputs), tolerance.leaves(draw.expected.native)
    return protocol.few((x.shape for x in given), (y.shape for y in made))


def _usable(reference: Reference, seed: int, family: str | None) -> Draw | None:
    try:
        draw = reference.draw(seed, family)
    except ReferenceRaised:
        if family is None:
            raise
        return None
    return draw if draw is not None and (family is None or draw.expected.obstacle() is None) else None


def _answers(reference: Reference, draw: Draw) -> tuple[dict[str, Answer], int]:
    """Return every wrong answer by name, and the number of operators with an eps, weight or bias."""
    answers: dict[str, Answer] = {}
    for name, _ in mutants.null_answers(draw.expected.native, draw.inputs):
        answers[name] = partial(_null, name)
    stale = tree_map(torch.clone, draw.expected.native)
    if draw.inputs:
        other = reference.inputs(reference.seed + 1, None)
        with torch.no_grad():
            stale = reference.native(other or [])[0]
        answers[equivalence.OTHER] = lambda at: stale
    if any(t.dtype is torch.float32 for t in tolerance.leaves(draw.expected.native)):
        answers[HALVED] = partial(_halved, reference)
    answers |= input_faults.answers(reference, draw)
    sites = mutants.Sites()
    with torch.no_grad(), sites:
        reference.truth(tree_map(torch.clone, draw.inputs))
    for site in sites.chosen():
        answers[str(site)] = partial(_mutated, reference, [site])
    if perturbation.is_deep(reference.model):
        for name, together in sites.together().items():
            answers[name] = partial(_mutated, reference, together)
    return answers, len({site.call for site in sites.found if site.change in mutants.TERMS})


def _right(
    reference: Reference, left: dict[str, Answer], null: set[str], different: set[str], seed: int
) -> set[str]:
    """Return the answers that are not wrong after all.

    These are null answers that equal the reference, and mutants within a random reference's spread.
    """
    same = equivalence.same(reference, [name for name in left if name in null - {HALVED}], seed)
    if HALVED in null - different and same & {"zeros", equivalence.OTHER}:
        same.add(HALVED)
    mutated = {name: answer for name, answer in left.items() if name in different - null}
    return same | equivalence.as_random(reference, mutated, seed)


def _too_fine(left: Iterable[str], seen: Seen, layers: int) -> list[str]:
    """Return surviving faults that cannot be told from rounding, so that they do not refuse the problem.

    There are three kinds:

    - a fault in `lost_terms.FINE`
    - a fault whose relative error exceeds `CLOSE` in no element of any draw
    - a fault in one eps, weight or bias of at least `MANY`, with a small root mean square error in all draws
    """
    return [
        name
        for name in left
        if name in seen.different
        and name.endswith(mutants.CHANGES)
        and (
            name.endswith(lost_terms.FINE)
            or name not in seen.apart
            or (layers >= MANY and _is_single_term(name) and name not in seen.large)
        )
    ]


def _is_single_term(name: str) -> bool:
    return name.endswith(mutants.TERMS) and not name.startswith(mutants.EVERY)


def _null(name: str, draw: Draw) -> Any:
    return dict(mutants.null_answers(draw.expected.native, draw.inputs))[name]


def _halved(reference: Reference, draw: Draw) -> Any:
    with torch.no_grad(), preconditions.checked(tolerance.leaves(draw.inputs)), mutants.Halved():
        return reference.native(tree_map(torch.clone, draw.inputs))[0]


def _mutated(reference: Reference, sites: list[mutants.Site], draw: Draw) -> Any:
    with torch.no_grad(), preconditions.checked(tolerance.leaves(draw.inputs)), mutants.Mutated(*sites):
        return reference.truth(tree_map(torch.clone, draw.inputs))


def _passes(answer: Answer, draw: Draw, name: str, seen: Seen) -> bool:
    """Return True if the comparator accepts the answer, and note its distance from the truth in `seen`."""
    try:
        given = answer(draw)
        outputs = tolerance.leaves(given)
        wanted = tolerance.leaves(draw.expected.native)
        if [t.shape for t in outputs] != [t.shape for t in wanted]:
            return False
        rounded = [y.to(want.dtype) for y, want in zip(outputs, wanted, strict=True)]
        passes = draw.expected.accepts(rounded)
        if passes:
            _note(outputs, draw, name, seen)
        return passes
    except RuntimeError:
        # A mutated operator that cannot run gives no answer, so none that passes.
        return False


def _note(outputs: list[torch.Tensor], draw: Draw, name: str, seen: Seen) -> None:
    for y, r64 in zip(outputs, tolerance.leaves(draw.expected.truth), strict=True):
        if not r64.is_floating_point():
            if not torch.equal(y.to(r64.dtype), r64):
                for names in seen:
                    names.add(name)
            continue
        keep = torch.isfinite(r64)
        if not torch.equal(torch.isfinite(y), keep):
            for names in seen:
                names.add(name)
        if not bool(keep.any()):
            continue
        truth, error = r64[keep], (y.double() - r64)[keep].abs().nan_to_num(posinf=math.inf)
        scale = truth.square().mean().sqrt()
        if bool((error > SAME * torch.maximum(truth.abs(), scale)).any()):
            seen.different.add(name)
        if bool((error > CLOSE * truth.abs() + SAME * scale).any()):
            seen.apart.add(name)
        if bool(error.square().mean().sqrt() > tolerance.UNSTABLE * scale):
            seen.large.add(name)
