"""What a user is told is going on; a build in between is named while it lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.harness.task.job import Announce


class Progress:
    """An `Announce` that remembers what it said last, as `now`."""

    def __init__(self, announce: Announce) -> None:
        self._announce, self.now = announce, ""

    def __call__(self, what: str) -> None:
        self.now = what
        self._announce(what)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Says `what`, and afterwards once more what was said before."""
        before = self.now
        if before == what:
            yield
            return
        self(what)
        try:
            yield
        finally:
            if before:
                self(before)


def of(announce: Announce) -> Progress:
    """The same one where it remembers already."""
    return announce if isinstance(announce, Progress) else Progress(announce)
