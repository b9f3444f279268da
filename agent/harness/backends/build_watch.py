"""Rules for a candidate's build requests: which are equal, how many are allowed, how long they take.

A candidate may build at import, in `__init__` or in forward. All instances and calls have to build equal
sources, because a source made after the inputs were seen could contain the result.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from agent import screen
from agent.build import flags
from agent.build.build_request import BuildRequest
from agent.emulator.replay import operators
from agent.harness.task.faults import Refused
from agent.harness.task.job import BUILD_LIMIT_S
from agent.records import Candidate, Finding, LibraryOps, Status

MAX_BUILDS = 16
"""Maximum number of distinct builds. Build time is not the candidate's time, so a count bounds it."""
MAX_REQUESTS = 16 * MAX_BUILDS
"""Maximum number of build requests, most of which repeat earlier sources under another name."""
TOO_MANY = {"error": f"a candidate may build {MAX_BUILDS} extensions, not more"}


def content(request: BuildRequest) -> str:
    """Return a request without the extension's name, which many candidates vary to bypass torch's cache."""
    return repr(request.model_dump(exclude={"name", "candidate_source"}))


def distinct(requests: Iterable[BuildRequest]) -> dict[str, BuildRequest]:
    """Return the first request of each distinct content, in order of the requests."""
    found: dict[str, BuildRequest] = {}
    for request in requests:
        found.setdefault(content(request), request)
    return found


def too_many(requests: Sequence[BuildRequest], request: BuildRequest) -> bool:
    """Return True if this request exceeds the number of builds that a candidate may make."""
    known = distinct(requests)
    return len(requests) >= MAX_REQUESTS or (content(request) not in known and len(known) >= MAX_BUILDS)


def screened(request: BuildRequest, candidate: Candidate, library_ops: LibraryOps) -> None:
    """Check the text to be built against the screen's rules. Raises Refused.

    The screen has not seen text that the candidate makes at run time.
    """
    defined = flags.definitions((*request.extra_cflags, *request.extra_cuda_cflags))
    texts = ["\n".join(sources) for sources in (request.cpp_sources, request.cuda_sources) if sources]
    permits = partial(operators.allowed, setting=library_ops)
    found = screen.compiled_text(texts, candidate.source, permits, defined)
    if found:
        raise Refused(Status.REJECTED, "build", list(found))


def unchanged(known: Iterable[str], requests: Iterable[BuildRequest]) -> None:
    """Raise Refused if any request has a content that is not in `known`."""
    allowed = set(known)
    for request in requests:
        if content(request) not in allowed:
            raise changed(f"extension `{request.name[:80]}` is another one on other inputs or parameters")


def changed(what: str) -> Refused:
    """Return the refusal of sources that differ from one build to the next, where `what` says how."""
    message = (
        f"The sources are not the same each time they are built: {what}. What is built must not depend on "
        "the time, on chance, on earlier imports or on what forward is given."
    )
    return Refused(Status.REJECTED, "integrity", [Finding(kind="sources-changed", message=message)])


class Watch:
    """Check that calls of forward after the first request no new builds."""

    def __init__(self, requests: Sequence[BuildRequest]) -> None:
        """Watch `requests`, which grows as the worker makes them."""
        self._requests = requests
        self._known: set[str] | None = None
        self.in_forward = False
        """True if the first call requested a build, which may depend on its inputs."""

    @contextmanager
    def call(self) -> Iterator[None]:
        """Watch one call. Raises Refused if a call after the first requests another build."""
        before = len(self._requests)
        yield
        if self._known is None:
            self._known, self.in_forward = set(distinct(self._requests)), len(self._requests) > before
        unchanged(self._known, self._requests)


class Clock:
    """Stopwatch for builds in the candidate's process, by the judge's own clock."""

    def __init__(self) -> None:
        self._spent, self._begun = 0.0, 0.0

    @property
    def running(self) -> bool:
        return self._begun > 0

    def begin(self) -> None:
        self.end()
        self._begun = time.monotonic()

    def end(self) -> None:
        self._spent, self._begun = self.seconds(), 0.0

    def granted(self) -> Callable[[], float]:
        """Return a function that gives the build seconds since this call, which extend a command's limit."""
        before = self.seconds()
        return lambda: min(self.seconds() - before, BUILD_LIMIT_S)

    def seconds(self) -> float:
        """Return the seconds of all builds so far, including the current one."""
        return self._spent + (time.monotonic() - self._begun if self.running else 0.0)
