"""A fault that a GPU reports without its line is run again where the line is known, at small sizes.

The emulator first, which names line, block and thread; compute-sanitizer where the emulator sees nothing. The
verdict stays the GPU's: only its headline is made more exact.
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
"""By what CUDA says of some kernel, and neither which one nor where: kinds of the emulator and of
compute-sanitizer that it can be. A race beside it is none of them."""
_SANITIZED = (FindingKind.ILLEGAL_ADDRESS, FindingKind.MISALIGNED_ACCESS)
"""What compute-sanitizer can tell more of; under it a kernel that never ends takes longer still."""
Look = Callable[[], Evaluation]


def wanted(found: Evaluation) -> str | None:
    """The kind of a kernel's fault that a GPU reported and nobody has located; None for other verdicts."""
    headline = found.headline
    failed = found.status in (Status.RUNTIME_ERROR, Status.TIMEOUT)
    if found.scope.executor != "cuda" or not failed or headline is None or headline.kind not in CAUSES:
        return None
    place = headline.location
    return headline.kind if place is None or place.kernel is None else None


def looked_for(kind: str, by_emulator: Look, by_sanitizer: Look) -> Evaluation:
    """What says where: the emulator if it names a kernel, else the sanitizer where that may know more."""
    seen = by_emulator()
    if _located(kind, seen) is not None or kind not in _SANITIZED:
        return seen
    return by_sanitizer()


def located(found: Evaluation, again: Look) -> Evaluation:
    """The verdict with the place of its fault; as it was, with a word on that, where it did not show."""
    kind = wanted(found)
    if kind is None:
        return found
    assert found.headline is not None
    where = again()
    exact = _located(kind, where)
    headline = _joined(found.headline, exact) if exact is not None else _unseen(found.headline, where)
    return found.model_copy(update={"findings": (headline, *found.findings[1:])})


def _located(kind: str, seen: Evaluation) -> Finding | None:
    """The first error that can be the cause and names its kernel."""
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
