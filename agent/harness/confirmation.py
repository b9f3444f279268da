"""A second look at a verified candidate that would be the best: what is kept has to be what users will run.

Before it is built by stock `load_inline` and judged and timed once more in a fresh sandbox, the emulator
repeats its kernels without its host code, as far as it can run them, and compute-sanitizer watches one call.
"""

from typing import NamedTuple

from agent.harness import sanitizer
from agent.harness.job import Announce, Job
from agent.records import Evaluation, Finding, Scope, Status

RACES = ("shared-race", "global-race-between-blocks")


class Look(NamedTuple):
    """What came of the looks before the second build."""

    status: Status | None
    """The verdict where they refuse."""
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]


def by_emulator(seen: Evaluation) -> Look:
    """What the emulator's verdict at small sizes means for a candidate that a GPU verified at its own."""
    if seen.status is Status.VERIFIED:
        return Look(None, (), ())
    if seen.status is Status.REJECTED or any(finding.kind in RACES for finding in seen.findings):
        return Look(seen.status, seen.findings, ())
    headline = seen.headline
    said = f"{headline.kind}: {headline.message}" if headline else str(seen.status)
    skipped = (f"its kernels repeated without host code: on the emulator it is {seen.status} ({said})",)
    if seen.status is Status.UNSUPPORTED or headline is None:
        return Look(None, (), skipped)
    message = f"At smaller sizes, on the emulator: {headline.message}"
    return Look(None, (headline.model_copy(update={"message": message, "severity": "warning"}),), skipped)


def by_sanitizer(job: Job, announce: Announce) -> Look:
    """What compute-sanitizer says of one call at small sizes."""
    assert job.shrunken is not None
    found, skipped = sanitizer.check(job, job.shrunken, announce)
    return Look(Status.RUNTIME_ERROR if found else None, tuple(found), skipped)


def sanitized(job: Job, scope: Scope, announce: Announce) -> Evaluation:
    """The same as an evaluation; *unsupported* where nothing showed."""
    look = by_sanitizer(job, announce)
    status = look.status or Status.UNSUPPORTED
    scope = scope.model_copy(update={"skipped": look.skipped})
    return Evaluation(status=status, stage="run", scope=scope, findings=look.findings)
