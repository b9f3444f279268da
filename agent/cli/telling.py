"""Progress of the API on the command line: steps on a spinner, results and warnings as lines."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.api.listening import Listener
from agent.cli import console


class Told(Listener):
    """Listener that passes messages to the console."""

    def __init__(self, live: console.Live) -> None:
        self._live = live

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._live.update(text, done, total)

    def say(self, text: str) -> None:
        console.say(text)

    def warn(self, text: str) -> None:
        console.warn(text)


@contextmanager
def telling(text: str = "preparing") -> Iterator[Told]:
    """Show a spinner and yield a listener that updates it."""
    with console.live(text) as live:
        yield Told(live)
