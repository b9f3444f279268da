"""Localization of a GPU fault without a source line, by running the candidate again at small sizes.

The emulator comes first, since it names line, block and thread. compute-sanitizer follows if the emulator
sees nothing. The verdict stays the GPU's; only its headline finding becomes more exact.
"""

from collections.abc import Callable

from agent.harness.confirmation import sanitizer
from agent.records import Evaluation, Finding, Status
from agent.torch_shim.finding_kinds import FindingKind

_OF_MEMORY = frozenset(
    {
        FindingKind.GLOBAL_OUT_OF_BOUNDS_READ, FindingKind.GLOBAL_OUT_OF_BOUNDS_WRITE,
        FindingKind.SHARED_OUT_OF_BOUNDS_READ, FindingKind.SHARED_OUT_OF_BOUNDS_WRITE,
        FindingKind.ARRAY_INDEX_OUT_OF_BOUNDS, FindingKind.NULL_POINTER, FindingKind.HOST_POINTER,
        FindingKind.FREED_POINTER, FindingKind.ILLEGAL_ADDRESS, FindingKind.MISALIGNED_ACCESS,
        FindingKind.INDEX_OVERFLOW, FindingKind.DEVICE_STACK_OVERFLOW, FindingKind.DEVICE_ASSERT,
        sanitizer.OUT_OF_BOUNDS, sanitizer.DEVICE_FAULT,
    }
)  # fmt: skip
_WAITING = frozenset(
    {
        FindingKind.DEADLOCK, FindingKind.DIVERGENT_BARRIER, FindingKind.BARRIER_AFTER_EXIT,
        str(Status.TIMEOUT),
    }
)  # fmt: skip
CAUSES: dict[str, frozenset[str]] = {
    FindingKind.ILLEGAL_ADDRESS: _OF_MEMORY,
    FindingKind.MISALIGNED_ACCESS: _OF_MEMORY,
    FindingKind.DEVICE_ASSERT: _OF_MEMORY,
    FindingKind.ILLEGAL_LAUNCH: frozenset({FindingKind.ILLEGAL_LAUNCH}),
    str(Status.TIMEOUT): _WAITING,
}
"""Kinds of findings of the emulator and compute-sanitizer, by the CUDA error that they can cause.

Races are left out, as they cause none of these errors by themselves.
"""
_SANITIZED = (FindingKind.ILLEGAL_ADDRESS, FindingKind.MISALIGNED_ACCESS)
"""Kinds of faults that compute-sanitizer can locate. A hang is not among them, as it slows kernels down."""
Look = Callable[[], Evaluation]


def wanted(found: Evaluation) -> str | None:
    """Return the kind of a kernel fault that a GPU reported without location, or None for other verdicts."""
    headline = found.headline
    failed = found.status in (Status.RUNTIME_ERROR, Status.TIMEOUT)
    if found.scope.executor != "cuda" or not failed or headline is None or headline.kind not in CAUSES:
        return None
    place = headline.location
    return headline.kind if place is None or place.kernel is None else None


def looked_for(kind: str, by_emulator: Look, by_sanitizer: Look) -> Evaluation:
    """Return the emulator's evaluation, or the sanitizer's if the emulator names no faulty kernel."""
    seen = by_emulator()
    if _located(kind, seen) is not None or kind not in _SANITIZED:
        return seen
    return by_sanitizer()


def located(found: Evaluation, again: Look) -> Evaluation:
    """Return the verdict with the fault's location, or with a remark if small sizes do not show the fault."""
    kind = wanted(found)
    if kind is None:
        return found
    assert found.headline is not None
    where = again()
    exact = _located(kind, where)
    headline = _joined(found.headline, exact) if exact is not None else _unseen(found.headline, where)
    return found.model_copy(update={"findings": (headline, *found.findings[1:])})


def _located(kind: str, seen: Evaluation) -> Finding | None:
    """Return the first error in `seen` that can cause a fault of this kind and names its kernel, or None."""
    errors = (finding for finding in seen.findings if finding.severity == "error")
    return next((e for e in errors if e.kind in CAUSES[kind] and e.location and e.location.kernel), None)


def _joined(headline: Finding, exact: Finding) -> Finding:
    evidence = [text for text in (exact.evidence, headline.message, headline.evidence) if text]
    return Finding(
        kind=exact.kind,
        message=f"Run again at small sizes: {exact.message}",
        location=exact.location,
        evidence="\n".join(evidence),
        count=exact.count,
    )


def _unseen(headline: Finding, where: Evaluation) -> Finding:
    said = f"Run again at small sizes it did not show: {where.status} ({where.scope.executor})."
    evidence = "\n".join(text for text in (headline.evidence, said) if text)
    return headline.model_copy(update={"evidence": evidence})
