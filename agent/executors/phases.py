"""Measurement of the seconds that each phase of an evaluation takes, from its progress messages."""

import re
import time

from agent.harness.task.job import Announce
from agent.records import Phase

STARTING = "starting"
_DETAIL = re.compile(r"[,:(].*", re.DOTALL)
"""Pattern of the detail after a phase's name, such as the number of a draw or the length of a queue."""
_LEAST_S = 0.001


class PhaseClock:
    """`Announce` callback that forwards progress messages and times phases.

    A phase lasts until the next message with another name.
    """

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._name, self._since = STARTING, time.monotonic()
        self._seconds: dict[str, float] = {}

    def __call__(self, what: str) -> None:
        self._begin(_DETAIL.sub("", what).strip())
        self._announce(what)

    def phases(self) -> tuple[Phase, ...]:
        """Return the total seconds of each phase so far, in order of first occurrence."""
        self._begin(self._name)
        passed = self._seconds.items()
        return tuple(Phase(name=name, seconds=round(s, 3)) for name, s in passed if s >= _LEAST_S)

    def _begin(self, name: str) -> None:
        now = time.monotonic()
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now
