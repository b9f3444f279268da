"""The explanation of a wrong function of tensors, given the right one: no corpus, no candidate."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch import causes
from agent.diagnosis.mismatch.case import Case
from agent.records import Finding

Tensor = torch.Tensor
BUDGET_S = 30.0
"""More than a search is given: what is found must not depend on how busy the machine is."""


def numbers(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _allowed(values: Tensor, amplification: float) -> Tensor:
    return amplification * (1e-6 + 1e-5 * values.abs())


def explained(
    right: Callable[..., Any], wrong: Callable[..., Any], *inputs: Tensor, source: str = ""
) -> Finding:
    """The finding for the wrong function's float32 result where the right one's is the truth."""
    truth = tensors(right(*inputs))
    outputs = [t.float() if t.is_floating_point() else t for t in tensors(wrong(*inputs))]
    limits: list[Callable[[Tensor, float], Tensor] | None] = [
        _allowed if t.is_floating_point() else None for t in truth
    ]
    case = Case(
        model=right, arguments=inputs, inputs=list(inputs), parameters={}, defaults={}, outputs=outputs,
        truth=truth, limits=limits, source=source,
    )  # fmt: skip
    return causes.explain(case, Finding(kind="wrong-values", message="wrong"), budget_s=BUDGET_S).finding


class Slip(NamedTuple):
    """A wrong function, the right one, and what has to be said of it."""

    right: Callable[..., Any]
    wrong: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    kind: str
    said: str
    source: str = ""

    def check(self) -> None:
        found = explained(self.right, self.wrong, *self.inputs, source=self.source)
        assert found.kind == self.kind, found.message
        assert self.said in found.message
