"""Explanations of wrong outputs: turns a draw and an output into a case for `agent.diagnosis`.

This code runs in the oracle's process.
"""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from agent.diagnosis import preconditions
from agent.diagnosis.mismatch import causes, rounds, samples, shapes, wording
from agent.diagnosis.mismatch.case import MOST_BYTES, Case
from agent.diagnosis.mismatch.causes import Explained
from agent.diagnosis.mismatch.pairs import AND
from agent.diagnosis.tape import TooLarge
from agent.diagnosis.where import telling
from agent.diagnosis.where.following import Followed
from agent.harness.truth import tolerance
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.records import Finding

FEW_ELEMENTS = 1 << 16
"""Number of elements of inputs and outputs above which a few samples of the batch are explained first."""
UNSURE = frozenset({"unknown-cause", "wrong-values"})
"""Kinds of finding that name no cause, so that they never replace an earlier finding."""
NOT_FINITE = frozenset({"nan-output", "non-finite-output", "constant-output"})
"""Kinds of finding that describe the output's values but not their cause."""
WHERE_S = 2.0
"""CPU seconds for an explanation with the search in kernels' writes, which gets at least LEAST_S."""
LEAST_S = 0.2
MOST_LOOKED_AT = 1 << 26
"""Maximum number of output elements that are all examined in float64."""
AT_ONCE = 1 << 24
"""Number of elements whose finiteness is tested at a time."""
ALLOCATOR = "DefaultCPUAllocator"
"""Part of the message of torch's RuntimeError for exhausted CPU memory."""
NO_MEMORY = "Too little memory to look for the cause; judge smaller sizes for it."
ON_SAMPLES = "Seen on some samples; the whole is too large to be compared with wrong references."


class Explaining:
    """Explanation of one candidate's wrong outputs, narrowed down draw by draw."""

    def __init__(self, reference: Reference, source: str, finding: Finding) -> None:
        """Start an explanation. `source` is the candidate's source, which is only read."""
        self._reference, self._source, self._found = reference, source, Explained(finding)
        self._first = finding
        self._budget_s = causes.BUDGET_S
        self._across = False
        self._begun = time.thread_time()
        self._sentences: tuple[str, ...] = ()
        """Sentences about the place of the error, added to the message if no cause is known."""
        self._few: list[Case] = []
        """Unexplained outputs with few elements, several of which may be explained together."""

    def of_values(self, draw: Draw, output: Any) -> dict[str, Any]:
        """Explain one more output. `open` is true in the answer if another output may narrow the cause."""
        return self._within_memory(draw, lambda: self._of_values(draw, output))

    def _within_memory(self, draw: Draw, explain: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer of `explain`, or the earlier explanation with a remark if memory runs out."""
        with _checked(draw):
            try:
                return explain()
            except (MemoryError, torch.OutOfMemoryError):
                pass
            except RuntimeError as error:
                if ALLOCATOR not in str(error):
                    raise
        # The frames that held the oversized tensors are gone only after the except block.
        self._few = []
        noted = wording.with_evidence(self._found.finding, NO_MEMORY)
        self._found = self._found._replace(finding=noted, open=(), unconfirmed=False)
        return self._answer()

    def _of_values(self, draw: Draw, output: Any) -> dict[str, Any]:
        large = _is_large(draw, output)
        whole = case(self._reference, draw, output, self._source, wide=not large)
        if self._few and not large:
            return self._of_several(whole)
        found = self._by_samples(whole, large)
        if found is None and large:
            raise TooLarge("the inputs in float64")
        if found is None:
            found = causes.explain(whole, self._first, self._found.open, self._budget_s, self._across)
        finite = all(map(_is_finite, whole.outputs))
        if self._found.unconfirmed and not large and finite and not found.named and not found.open:
            # An explanation that fitted the few elements of an earlier output does not fit this one.
            self._found = causes.explain(whole, self._first, (), self._budget_s)
        elif self._is_part(found):
            # Only one of two faults shows in this output; an earlier output showed both.
            self._found = self._found._replace(open=())
        elif not self._found.open or found.open != self._found.open and found.finding.kind not in UNSURE:
            self._found = found
        if not self._found.named and not self._found.open and finite:
            self._few = [whole] if max(t.numel() for t in whole.outputs) < rounds.NUMBERS else []
        return self._answer()

    def _is_part(self, found: Explained) -> bool:
        """Return True if the explanation so far names two faults and `found` names one of these only."""
        before, now = self._found.named[:1], found.named[:1]
        return any(AND in words and word in words.split(AND) for words in before for word in now)

    def _of_several(self, whole: Case) -> dict[str, Any]:
        """Explain the small outputs together once they have enough elements."""
        self._few.append(whole)
        if len(self._few) * min(t.numel() for t in whole.outputs) >= rounds.NUMBERS:
            found = causes.of_several(self._few, self._first)
            self._found = found if found.named else self._found
            self._few = []
        return self._answer()

    def _by_samples(self, whole: Case, large: bool) -> Explained | None:
        """Explain a few samples of the batch and confirm the result on the whole output.

        Returns None if the output is small, its samples depend on each other, or no cause was confirmed. If
        `large`, the result is not confirmed, and the inputs are not in float64 yet.
        """
        if sum(t.numel() for t in (*whole.inputs, *whole.outputs)) <= FEW_ELEMENTS:
            return None
        elements = sum(t.numel() for t in whole.outputs)
        lost = causes.never_written(whole, self._found.finding) if elements <= MOST_LOOKED_AT else None
        part = None if lost is not None or self._reference.changes else samples.part(whole, FEW_ELEMENTS)
        if part is None:
            return lost
        self._budget_s = causes.BUDGET_S / 2
        found = causes.explain(part, self._found.finding, self._found.open, self._budget_s)
        if not found.named:
            self._across = True
            return None
        if large or elements > causes.LARGEST_ELEMENTS:
            return _on_samples(found)
        try:
            confirmed = causes.explain(whole, self._found.finding, found.named)
        except (MemoryError, torch.OutOfMemoryError):
            return _on_samples(found)
        self._across = not confirmed.named
        return confirmed if confirmed.named else None

    def where(self, draw: Draw, output: Any, followed: Followed) -> dict[str, Any]:
        """Explain by the values that the candidate's kernels wrote in the call that gave this output."""
        return self._within_memory(draw, lambda: self._where(draw, output, followed))

    def _where(self, draw: Draw, output: Any, followed: Followed) -> dict[str, Any]:
        whole = case(self._reference, draw, output, self._source)
        left = WHERE_S - (time.thread_time() - self._begun)
        found = telling.told(whole, followed, self._first, max(left, LEAST_S))
        self._sentences = found.sentences
        if found.explained is not None:
            self._found, self._few = found.explained, []
        return self._answer()

    def of_shape(self, draw: Draw, given: tuple[int, ...], wanted: tuple[int, ...]) -> dict[str, Any]:
        """Explain a wrong shape by the chain of operators that leads to the right shape."""
        return self._within_memory(draw, lambda: self._of_shape(draw, given, wanted))

    def _of_shape(self, draw: Draw, given: tuple[int, ...], wanted: tuple[int, ...]) -> dict[str, Any]:
        if _is_large(draw, draw.expected.native):
            raise TooLarge("the inputs in float64")
        made = case(self._reference, draw, draw.expected.native, self._source)
        self._found = Explained(shapes.explain(made.tape(), given, wanted, self._found.finding))
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
    """Return a context that checks operators' inputs, so that wrong references cause no device asserts."""
    return preconditions.checked([*tolerance.leaves(draw.inputs), *tolerance.leaves(draw.expected.truth)])


def _is_large(draw: Draw, output: Any) -> bool:
    """Return True if inputs and outputs take more memory in float64 than a case may."""
    held = (*tolerance.leaves(draw.inputs), *tolerance.leaves(output))
    return sum(t.numel() for t in held) * torch.float64.itemsize > MOST_BYTES


def _is_finite(tensor: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(part).all()) for part in torch.split(tensor.reshape(-1), AT_ONCE))


def _on_samples(found: Explained) -> Explained:
    evidence = "\n".join([ON_SAMPLES, found.finding.evidence or ""])
    return found._replace(finding=found.finding.model_copy(update={"evidence": evidence}))


def case(reference: Reference, draw: Draw, output: Any, source: str, *, wide: bool = True) -> Case:
    """Return the case for `agent.diagnosis`: reference, inputs, output, truth and tolerances.

    Inputs are in float64 if `wide`, and the draw's own otherwise, to be cut to samples.
    """
    model = reference.in_float64()
    inputs = draw.inputs
    if wide:
        inputs = tree_map(lambda t: t.double() if t.is_floating_point() else t.clone(), inputs)

    state = [*tolerance.leaves(inputs), *model.state_dict(keep_vars=True).values()]
    before = [t.detach().clone() for t in state] if reference.changes and wide else []

    def run(*given: Any) -> Any:
        # Each run restores what the reference writes to, outside any dispatch mode that records it.
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
    """Return True if all elements are equal, as in a default; constructors draw other tensors at random."""
    return tensor.is_floating_point() and tensor.numel() > 0 and bool((tensor == tensor.reshape(-1)[0]).all())
