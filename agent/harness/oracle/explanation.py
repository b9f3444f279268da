"""From a draw and a wrong output to the case that `agent.diagnosis` explains, in the oracle's process."""

import contextlib
import time
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from agent.diagnosis import preconditions
from agent.diagnosis.mismatch import causes, rounds, samples, shapes
from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mismatch.causes import Explained
from agent.diagnosis.mismatch.pairs import AND
from agent.diagnosis.tape import record
from agent.diagnosis.where import telling
from agent.diagnosis.where.following import Followed
from agent.harness.truth import tolerance
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.records import Finding

FEW_ELEMENTS = 1 << 16
"""Of inputs and outputs; with more, a few samples are explained first."""
UNSURE = frozenset({"unknown-cause", "wrong-values"})
"""Kinds that say less than what was known before."""
NOT_FINITE = frozenset({"nan-output", "non-finite-output", "constant-output"})
"""Kinds that say what the output holds, and not why."""
WHERE_S = 2.0
"""Of computing, for an explanation and the search in what kernels wrote; LEAST_S for that in any case."""
LEAST_S = 0.2


class Explaining:
    """The explanation of one candidate's wrong outputs, narrowed down draw by draw."""

    def __init__(self, reference: Reference, source: str, finding: Finding) -> None:
        """`source` is the candidate's, and only read."""
        self._reference, self._source, self._found = reference, source, Explained(finding)
        self._first = finding
        self._budget_s = causes.BUDGET_S
        self._across = False
        self._begun = time.thread_time()
        self._sentences: tuple[str, ...] = ()
        """Where the error comes from, which is said where no cause is known."""
        self._few: list[Case] = []
        """Outputs of few numbers that nothing explained: several of them may be explained together."""

    def of_values(self, draw: Draw, output: Any) -> dict[str, Any]:
        """Explain one more output; `open` in the answer means that another one may tell more."""
        with _checked(draw):
            return self._of_values(draw, output)

    def _of_values(self, draw: Draw, output: Any) -> dict[str, Any]:
        whole = case(self._reference, draw, output, self._source)
        if self._few:
            return self._of_several(whole)
        found = self._by_samples(whole)
        if found is None:
            found = causes.explain(whole, self._first, self._found.open, self._budget_s, self._across)
        finite = all(bool(torch.isfinite(y).all()) for y in whole.outputs)
        if self._found.unconfirmed and finite and not found.named and not found.open:
            # What agreed with the few elements of one output does not agree with those of another.
            self._found = causes.explain(whole, self._first, (), self._budget_s)
        elif self._is_part(found):
            # One of two faults shows in this output, and both are known from another one.
            self._found = self._found._replace(open=())
        elif not self._found.open or found.open != self._found.open and found.finding.kind not in UNSURE:
            self._found = found
        if not self._found.named and not self._found.open and finite:
            self._few = [whole] if max(t.numel() for t in whole.outputs) < rounds.NUMBERS else []
        return self._answer()

    def _is_part(self, found: Explained) -> bool:
        """Whether what is known so far is two faults, and this is one of them alone."""
        before, now = self._found.named[:1], found.named[:1]
        return any(AND in words and word in words.split(AND) for words in before for word in now)

    def _of_several(self, whole: Case) -> dict[str, Any]:
        """Once there are enough numbers."""
        self._few.append(whole)
        if len(self._few) * min(t.numel() for t in whole.outputs) >= rounds.NUMBERS:
            found = causes.of_several(self._few, self._first)
            self._found = found if found.named else self._found
            self._few = []
        return self._answer()

    def _by_samples(self, whole: Case) -> Explained | None:
        """From a few samples, confirmed on all; None where the output is small or its samples depend."""
        if sum(t.numel() for t in (*whole.inputs, *whole.outputs)) <= FEW_ELEMENTS:
            return None
        lost = causes.never_written(whole, self._found.finding)
        part = None if lost is not None or self._reference.changes else samples.part(whole, FEW_ELEMENTS)
        if part is None:
            return lost
        self._budget_s = causes.BUDGET_S / 2
        found = causes.explain(part, self._found.finding, self._found.open, self._budget_s)
        if not found.named:
            self._across = True
            return None
        if sum(t.numel() for t in whole.outputs) > causes.LARGEST_ELEMENTS:
            note = "Seen on some samples; the whole is too large to be compared with wrong references."
            evidence = "\n".join([note, found.finding.evidence or ""])
            return found._replace(finding=found.finding.model_copy(update={"evidence": evidence}))
        confirmed = causes.explain(whole, self._found.finding, found.named)
        self._across = not confirmed.named
        return confirmed if confirmed.named else None

    def where(self, draw: Draw, output: Any, followed: Followed) -> dict[str, Any]:
        """Explain with what the candidate's kernels wrote in the call that gave this output."""
        whole = case(self._reference, draw, output, self._source)
        left = WHERE_S - (time.thread_time() - self._begun)
        with _checked(draw):
            found = telling.told(whole, followed, self._first, max(left, LEAST_S))
        self._sentences = found.sentences
        if found.explained is not None:
            self._found, self._few = found.explained, []
        return self._answer()

    def of_shape(self, draw: Draw, given: tuple[int, ...], wanted: tuple[int, ...]) -> dict[str, Any]:
        """Explain with the chain of operators that leads to the right shape."""
        made = case(self._reference, draw, draw.expected.native, self._source)
        with _checked(draw):
            tape = record(made.run, made.names())
            self._found = Explained(shapes.explain(tape, given, wanted, self._found.finding))
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        found = self._found
        named = bool(found.named) or found.finding.kind not in UNSURE | NOT_FINITE
        finding = found.finding
        if not named and self._sentences:
            message = " ".join((finding.message, *self._sentences))
            finding = finding.model_copy(update={"message": message})
        return {
            "finding": finding.model_dump(mode="json"),
            "named": named,
            "open": bool(found.open or self._few),
            "unconfirmed": found.unconfirmed or bool(self._few),
        }


def _checked(draw: Draw) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which no wrong reference fails inside a kernel of the draw's device."""
    return preconditions.checked([*tolerance.leaves(draw.inputs), *tolerance.leaves(draw.expected.truth)])


def case(reference: Reference, draw: Draw, output: Any, source: str) -> Case:
    model = reference.in_float64()
    inputs = tree_map(lambda t: t.double() if t.is_floating_point() else t.clone(), draw.inputs)

    state = [*tolerance.leaves(inputs), *model.state_dict(keep_vars=True).values()]
    before = [t.detach().clone() for t in state] if reference.changes else []

    def run(*given: Any) -> Any:
        # What a reference writes to is as it was before, each time; nobody records that.
        with _disable_current_modes(), torch.no_grad():
            for tensor, value in zip(state, before, strict=False):
                tensor.copy_(value)
        stated = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return model(*given)
        finally:
            torch.set_default_dtype(stated)

    return Case(
        model=run,
        arguments=inputs,
        inputs=tolerance.leaves(inputs),
        parameters=dict(model.state_dict(keep_vars=True)),
        defaults={name: t.double() for name, t in reference.constructed.items() if _constant(t)},
        outputs=tolerance.leaves(output),
        truth=tolerance.leaves(draw.expected.truth),
        limits=draw.expected.around(),
        source=source,
        spreads=draw.expected.spreads(),
    )


def _constant(tensor: torch.Tensor) -> bool:
    """Whether a constructor gave every element the same value: others were drawn at random."""
    return tensor.is_floating_point() and tensor.numel() > 0 and bool((tensor == tensor.reshape(-1)[0]).all())
