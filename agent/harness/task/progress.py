"""Progress messages for the user, which name a build while it interrupts another step."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.harness.task.job import Announce


class Progress:
    """`Announce` callback that remembers its last message as `now`."""

    def __init__(self, announce: Announce) -> None:
        self._announce, self.now = announce, ""

    def __call__(self, what: str) -> None:
        self.now = what
        self._announce(what)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Announce `what`, and repeat the previous message at the end of the context."""
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


def as_progress(announce: Announce) -> Progress:
    """Return `announce` itself if it is a `Progress`, else wrap it in one."""
    return announce if isinstance(announce, Progress) else Progress(announce)
