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


class _HeardBy(Listener):
    """Passes everything on, and the events to one more."""

    def __init__(self, inner: Listener, hear: Callable[[Event], None]) -> None:
        self._inner, self._hear = inner, hear

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._inner.update(text, done, total)

    def say(self, text: str) -> None:
        self._inner.say(text)

    def warn(self, text: str) -> None:
        self._inner.warn(text)

    def event(self, event: Event) -> None:
        self._hear(event)
        self._inner.event(event)


def heard_by(inner: Listener, hear: Callable[[Event], None]) -> Listener:
    """A listener as `inner`, whose events `hear` is told as well."""
    return _HeardBy(inner, hear)
