"""Progress reporting: a function of one text, or a Listener with one method per kind of message."""

import warnings
from collections.abc import Callable

from agent.records import Event


class Listener:
    """Receives progress in the thread that does the work. Override the methods you need."""

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Receive the current step, with its progress where known."""

    def say(self, text: str) -> None:
        """Receive an intermediate result as one line."""

    def warn(self, text: str) -> None:
        """Receive a warning for the user. Issues a Python warning by default."""
        warnings.warn(text, UserWarning, stacklevel=2)

    def event(self, event: Event) -> None:
        """Receive an event of a run once it is on disk."""

    def began(self, run: str) -> None:
        """Receive the id of a run before its first event is written, or before it is resumed."""

    def cancelled(self) -> bool:
        """Return True once the caller has cancelled; judging then ends with Interrupted.

        Called several times a second, from any thread.
        """
        return False


Progress = Callable[[str], None] | Listener | None
"""Type of the `progress` argument: a function called with one line of text, a Listener, or None."""


class _Lines(Listener):
    """Forwards every text to one function and drops an update that repeats the one before."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._last: str | None = None

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if text != self._last:
            self._last = text
            self._tell(text)

    def say(self, text: str) -> None:
        self._tell(text)


def listener(progress: Progress) -> Listener:
    """Return the listener for a `progress` argument."""
    if isinstance(progress, Listener):
        return progress
    return _Lines(progress) if progress is not None else Listener()


class Relay(Listener):
    """Forwards everything to another listener. Override the methods you need."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._inner.update(text, done, total)

    def say(self, text: str) -> None:
        self._inner.say(text)

    def warn(self, text: str) -> None:
        self._inner.warn(text)

    def event(self, event: Event) -> None:
        self._inner.event(event)

    def began(self, run: str) -> None:
        self._inner.began(run)

    def cancelled(self) -> bool:
        return self._inner.cancelled()


class _HeardBy(Relay):
    def __init__(self, inner: Listener, hear: Callable[[Event], None]) -> None:
        super().__init__(inner)
        self._hear = hear

    def event(self, event: Event) -> None:
        self._hear(event)
        super().event(event)


def heard_by(inner: Listener, hear: Callable[[Event], None]) -> Listener:
    """Return a listener that forwards to `inner` and also passes each event to `hear`."""
    return _HeardBy(inner, hear)
