"""Report of the few inputs on which the first wrong element depends, by its gradient."""

from typing import NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.mismatch.mismatch_description import unravelled
from agent.diagnosis.mismatch.searching import FAILING
from agent.diagnosis.tape import Tape

Tensor = torch.Tensor
FEW = 4
"""Maximum number of input and parameter elements reported."""
LARGEST = 1 << 20
"""Maximum number of elements of all inputs and parameters. The gradient of more takes too long."""
LONGEST = 300
"""Maximum number of operators of the reference. The gradient through more takes too long."""


class Leaf(NamedTuple):
    """An input or parameter and its name."""

    name: str
    tensor: Tensor


def describe_dependency(case: Case, tape: Tape, number: int, target: Target) -> str | None:
    """Return a sentence on the inputs of the first wrong element of output `number`.

    None if the element depends on more than FEW values, or if its gradient is unknown.
    """
    names = case.names()
    known = {id(t): t for t in (*case.inputs, *case.parameters.values())}
    leaves = [Leaf(names[key], t) for key, t in known.items() if t.is_floating_point() and t.numel()]
    if (
        case.part is not None
        or len(tape.calls) > LONGEST
        or sum(leaf.tensor.numel() for leaf in leaves) > LARGEST
    ):
        return None
    place = int(target.wrong.to(torch.uint8).argmax())
    gradients = _gradients(case, number, place, [leaf.tensor for leaf in leaves])
    told: list[str] = []
    for leaf, gradient in zip(leaves, gradients, strict=False):
        for index in gradient.nonzero().tolist() if gradient is not None else []:
            if len(told) == FEW:
                return None
            told.append(
                f"{leaf.name}[{', '.join(map(str, index))}] = {float(leaf.tensor.detach()[tuple(index)]):.4g}"
            )
    at = unravelled(place, target.shape)
    inputs = " and ".join(told)
    return f"At the first wrong element, {at}, the reference's gradient has {inputs} alone." if told else None


def _gradients(case: Case, number: int, place: int, leaves: list[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradient of one output element for each leaf; empty if the reference has no gradient."""
    before = [leaf.requires_grad for leaf in leaves]
    try:
        for leaf in leaves:
            leaf.requires_grad_(True)
        with torch.enable_grad():
            element = tensors(case.run())[number].reshape(-1)[place]
            return torch.autograd.grad(element, leaves, allow_unused=True)
    except FAILING:
        return ()
    finally:
        for leaf, was in zip(leaves, before, strict=True):
            leaf.requires_grad_(was)
