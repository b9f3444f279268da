"""What a candidate's process asked to have built: which requests are alike, how many there may be, how long
they take, and that their sources do not depend on what forward is given.

A candidate may build wherever it likes: at import, in `__init__`, in forward. What is built has to be the
same for every instance and every call, since a source made after the inputs were seen could hold the result.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from agent import screen
from agent.build import flags
from agent.build.build_request import BuildRequest
from agent.harness.task.faults import Refused
from agent.harness.task.job import BUILD_LIMIT_S
from agent.records import Candidate, Finding, Status

MAX_BUILDS = 16
"""Building does not count against the candidate's time, so its number has to be bounded."""
MAX_REQUESTS = 16 * MAX_BUILDS
"""Of all requests, most of which ask for the same sources under another name."""
TOO_MANY = {"error": f"a candidate may build {MAX_BUILDS} extensions, not more"}


def content(request: BuildRequest) -> str:
    """All of a request but its name: many files make one up so as to get past torch's own cache."""
    return repr(request.model_dump(exclude={"name", "candidate_source"}))


def distinct(requests: Iterable[BuildRequest]) -> dict[str, BuildRequest]:
    """The first request for each content, in that order."""
    found: dict[str, BuildRequest] = {}
    for request in requests:
        found.setdefault(content(request), request)
    return found


def too_many(requests: Sequence[BuildRequest], request: BuildRequest) -> bool:
    """Whether this request goes beyond what a candidate may build."""
    known = distinct(requests)
    return len(requests) >= MAX_REQUESTS or (content(request) not in known and len(known) >= MAX_BUILDS)


def screened(request: BuildRequest, candidate: Candidate) -> None:
    """Holds the text that is built against the screen's rules, since text made at run time was not there to
    be read before. Raises Refused.
    """
    defined = flags.definitions((*request.extra_cflags, *request.extra_cuda_cflags))
    texts = (*request.cpp_sources, *request.cuda_sources, *defined)
    found = [finding for text in texts for finding in screen.compiled_text(text, candidate.source)]
    if found:
        raise Refused(Status.REJECTED, "build", found)


def unchanged(known: Iterable[str], requests: Iterable[BuildRequest]) -> None:
    """Raises Refused where something else is asked for than the contents that were asked for before."""
    allowed = set(known)
    for request in requests:
        if content(request) not in allowed:
            raise changed(f"extension `{request.name[:80]}` is another one on other inputs or parameters")


def changed(what: str) -> Refused:
    """The verdict on sources that are not the same each time."""
    message = (
        f"The sources are not the same each time they are built: {what}. What is built must not depend on "
        "the time, on chance, on earlier imports or on what forward is given."
    )
    return Refused(Status.REJECTED, "integrity", [Finding(kind="sources-changed", message=message)])


class Watch:
    """Holds the requests of later calls of forward against those up to the end of the first."""

    def __init__(self, requests: Sequence[BuildRequest]) -> None:
        """`requests` grows as they are made."""
        self._requests = requests
        self._known: set[str] | None = None
        self.in_forward = False
        """Whether the first call asked for something, which may depend on its inputs."""

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each call. Raises Refused where one after the first has something else built."""
        before = len(self._requests)
        yield
        if self._known is None:
            self._known, self.in_forward = set(distinct(self._requests)), len(self._requests) > before
        unchanged(self._known, self._requests)


class Clock:
    """Seconds that builds in the candidate's own process take, by this process's clock."""

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
        """What builds take from now on, beyond the limit of the command in which they happen."""
        before = self.seconds()
        return lambda: min(self.seconds() - before, BUILD_LIMIT_S)

    def seconds(self) -> float:
        """Of all builds so far, the present one among them."""
        return self._spent + (time.monotonic() - self._begun if self.running else 0.0)
