"""The second pass: another process that imports the file has to ask for the same sources, byte for byte.

Otherwise what was verified is not what the next import of the file builds: sources that depend on the time,
on chance or on how often they were asked for.
"""

from collections.abc import Sequence

from agent.emulator.units import BuildRequest
from agent.harness.faults import Refused
from agent.harness.subject import Subject
from agent.records import Finding, Status
from agent.sandbox import ChildFault

# The name may change: many files make one up so as to get past torch's own cache.
_COMPARED = [part for part in BuildRequest.model_fields if part != "name"]


def check(subject: Subject, asked: Sequence[BuildRequest]) -> None:
    """Raises Refused where a second import, by `subject`, asks for something else than `asked`."""
    try:
        answer = subject.load()
    except ChildFault as fault:
        raise _refused(f"imported a second time, the file {fault}") from None
    assert subject.lane is not None
    requests = subject.lane.requests
    if "error" in answer:
        raise _refused("imported a second time, the file raises an error")
    if len(requests) != len(asked):
        raise _refused(f"it asked for {len(asked)} extensions, then for {len(requests)}")
    for first, second in zip(asked, requests, strict=True):
        parts = [part for part in _COMPARED if getattr(first, part) != getattr(second, part)]
        if parts:
            raise _refused(f"{', '.join(parts)} of extension `{first.name[:80]}` changed")


def _refused(what: str) -> Refused:
    message = (
        f"The sources are not the same each time the file is imported: {what}. What is built must not depend "
        "on the time, on chance or on earlier imports."
    )
    return Refused(Status.REJECTED, "integrity", [Finding(kind="sources-changed", message=message)])
