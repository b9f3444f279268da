"""Tests for null answers, such as zeros, that equal the reference's function and so are not wrong.

Such a null answer has to be right everywhere. The test therefore runs in float64 on inputs far from the
stated ones, with new parameters for each draw. Answers count as equal if they differ by float64 rounding
alone. The allowance is 64 eps of float64 plus 2^-20 of the float32 reference's error. That error is about
2^29 times as large as float64's.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from agent.harness.mutation import mutants
from agent.harness.truth import tolerance
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.harness.truth.user_code import ReferenceRaised

SPREADS = (0, 2, 6, 12, 25, 40, 0, 2, 6, 12, 25, 40)
"""Exponent n of each draw, whose magnitudes are log-uniform in 2^-n to 2^n; 0 means stated inputs."""
ENOUGH = 4
"""Minimum number of draws with a finite result, below which no answer counts as equal."""
REPEATS = 4
"""Number of draws, and of runs on each, that measure the spread of a reference with random numbers."""
OTHER = "the answer to other inputs"


def same(reference: Reference, names: Iterable[str], seed: int) -> set[str]:
    """Return the names of the null answers that are the reference's own function."""
    left, taken = set(names), 0
    for number, spread in enumerate(SPREADS):
        if not left:
            break
        reference.perturb(seed + number)
        try:
            with torch.no_grad():
                inputs, truth, error = _run(reference, seed + number, spread)
                other = _run(reference, seed - 1 - number, spread)[1]
        except ReferenceRaised:
            continue
        if tolerance.non_finite(truth) or tolerance.non_finite(other):
            continue
        taken += 1
        answers = {OTHER: other} | dict(mutants.null_answers(truth, tree_map(_to64, inputs)))
        left = {name for name in left if name in answers and _equal(answers[name], truth, error)}
    return left if taken >= ENOUGH else set()


def as_random(reference: Reference, answers: Mapping[str, Callable[[Draw], Any]], seed: int) -> set[str]:
    """Return the names of answers no further from the truth than a random reference's own runs.

    A reference that draws random numbers, such as a recurrent network's first state, has no single right
    answer. An answer counts as right if it is within the reference's spread for each of `REPEATS` draws of
    parameters and inputs. The result is empty for a reference whose forward draws no random numbers.
    """
    left = set(answers)
    for number in range(REPEATS if answers else 0):
        reference.perturb(seed + number)
        draw = reference.draw(seed + number)
        if draw is None or tolerance.non_finite(draw.expected.truth):
            return set()
        with torch.no_grad():
            before = torch.get_rng_state()
            runs = [reference.truth(tree_map(torch.clone, draw.inputs)) for _ in range(REPEATS)]
        if torch.equal(before, torch.get_rng_state()):
            return set()
        own = max(_distance(run, draw.expected.truth) for run in runs)
        left = {name for name in left if _distance(answers[name](draw), draw.expected.truth) <= own}
    return left


def _distance(answer: Any, truth: Any) -> float:
    """Return the Euclidean distance between two results, over all their tensors."""
    pairs = zip(tolerance.leaves(answer), tolerance.leaves(truth), strict=True)
    return math.sqrt(sum(float((y.double() - r64.double()).square().sum()) for y, r64 in pairs))


def words(same: set[str]) -> list[str]:
    """Return sentences for the user on a reference that equals the null answers `same`."""
    if "zeros" in same:
        return ["its output is 0 whatever the inputs are: a kernel that writes zeros computes it"]
    if OTHER in same:
        return ["its output does not depend on its inputs: a kernel that writes constants computes it"]
    copied = sorted(name for name in same if name.endswith("copied"))
    return [f"its output is {name.removesuffix(' copied')} as it is: a copy computes it" for name in copied]


def _run(reference: Reference, seed: int, spread: int) -> tuple[list[Any], Any, float]:
    """Return inputs, the reference's result in float64, and the largest error of its float32 result."""
    stated = reference.inputs(seed, None) or []
    generator = torch.Generator().manual_seed(seed)
    inputs = tree_map(lambda t: _spread(t, spread, generator), stated)
    truth = reference.truth(tree_map(torch.clone, inputs))
    native = reference.native(tree_map(torch.clone, inputs))[0]
    error = 0.0
    for y32, r64 in zip(tolerance.leaves(native), tolerance.leaves(truth), strict=True):
        if y32.is_floating_point() and y32.numel():
            error = max(error, float((y32.double() - r64).abs().nan_to_num(posinf=0.0).max()))
    return inputs, truth, error


def _spread(x: torch.Tensor, spread: int, generator: torch.Generator) -> torch.Tensor:
    """Return values of all orders of magnitude with either sign, a sixteenth of them zero."""
    if not spread or not x.is_floating_point():
        return x
    power = spread * (2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1)
    sign = torch.randint(2, x.shape, generator=generator) * 2 - 1
    size = torch.where(torch.rand(x.shape, generator=generator) < 1 / 16, 0.0, (power * math.log(2)).exp())
    return (sign * size).to(x)


def _equal(answer: Any, truth: Any, error: float) -> bool:
    for y, r64 in zip(tolerance.leaves(answer), tolerance.leaves(truth), strict=True):
        if y.shape != r64.shape:
            return False
        if not r64.is_floating_point():
            if not torch.equal(y.to(r64.dtype), r64):
                return False
        elif r64.numel():
            allowed = 64 * torch.finfo(torch.float64).eps * float(r64.abs().max()) + error / (1 << 20)
            if not float((y.double() - r64).abs().max()) <= allowed:
                return False
    return True


def _to64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
