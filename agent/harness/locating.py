"""A fault that a GPU reports without its line is run again where the line is known, at small sizes.

The emulator first, which names line, block and thread; compute-sanitizer where the emulator sees nothing. The
verdict stays the GPU's: only its headline is made more exact.
"""

from collections.abc import Callable

from agent.records import Evaluation, Finding, Status

WITHOUT_LINE = frozenset({"illegal-address", "misaligned-access", "device-assert"})
"""Kinds by which CUDA says that some kernel failed, and neither which one nor where."""
CAUSES = frozenset(
    {
        "global-out-of-bounds-read", "global-out-of-bounds-write", "shared-out-of-bounds-read",
        "shared-out-of-bounds-write", "array-index-out-of-bounds", "null-pointer", "host-pointer",
        "freed-pointer", "illegal-address", "misaligned-access", "index-overflow", "device-stack-overflow",
        "device-assert", "out-of-bounds", "device-fault",
    }
)  # fmt: skip
"""Kinds of the emulator and of compute-sanitizer that such a failure can be; a race beside it is none."""
Look = Callable[[], Evaluation]


def wanted(found: Evaluation) -> bool:
    """Whether this is the verdict of a GPU on a kernel's fault that nobody has located."""
    headline = found.headline
    if found.scope.executor != "cuda" or found.status is not Status.RUNTIME_ERROR or headline is None:
        return False
    place = headline.location
    return headline.kind in WITHOUT_LINE and (place is None or place.kernel is None)


def looked_for(by_emulator: Look, by_sanitizer: Look) -> Evaluation:
    """What says where: the emulator's verdict if it names a kernel, else the sanitizer's."""
    seen = by_emulator()
    return seen if _located(seen) is not None else by_sanitizer()


def located(found: Evaluation, again: Look) -> Evaluation:
    """The verdict with the place of its fault; as it was, with a word on that, where it did not show."""
    if not wanted(found):
        return found
    assert found.headline is not None
    where = again()
    exact = _located(where)
    headline = _joined(found.headline, exact) if exact is not None else _unseen(found.headline, where)
    return found.model_copy(update={"findings": (headline, *found.findings[1:])})


def _located(seen: Evaluation) -> Finding | None:
    """The first error that can be the cause and names its kernel."""
    errors = (finding for finding in seen.findings if finding.severity == "error")
    return next((e for e in errors if e.kind in CAUSES and e.location and e.location.kernel), None)


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
