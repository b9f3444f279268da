"""Who hears what is going on: a function of one text, or an object with a method for each kind of news."""

import warnings
from collections.abc import Callable

from agent.records import Event


class Listener:
    """Told about work in progress, in the thread that does it. Override the methods you need."""

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """The step that is being done now, and how much of it where that is known."""

    def say(self, text: str) -> None:
        """A result on the way, in one line."""

    def warn(self, text: str) -> None:
        """Something that the user should know; by default a Python warning."""
        warnings.warn(text, UserWarning, stacklevel=2)

    def event(self, event: Event) -> None:
        """An event of a run, after it is on disk."""

    def began(self, run: str) -> None:
        """The id of a run, before its first event is on disk, or before it is gone on with."""

    def cancelled(self) -> bool:
        """Whether nobody wants the result any more: what is judged then ends with Interrupted.

        Asked several times a second, from any thread.
        """
        return False


Progress = Callable[[str], None] | Listener | None
"""What the API takes as `progress`: a function that is called with one line of text, a Listener, or None."""


class _Lines(Listener):
    """Passes every text on to one function; a text that repeats the one before is left out."""

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
    """The listener that a `progress` argument stands for."""
    if isinstance(progress, Listener):
        return progress
    return _Lines(progress) if progress is not None else Listener()


class Relay(Listener):
    """Passes everything on to another listener. Override what you want to hear besides."""

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
    """A listener as `inner`, whose events `hear` is told as well."""
    return _HeardBy(inner, hear)
