"""Time a child has taken, measured so that a process starved by a busy machine does not seem to hang.

Seconds count in which its processes computed, and in which all of them only waited. Seconds in which one was
ready to run count as far as it got a processor, according to the kernel. At least a tenth of them counts, so
a limit is exceeded at most tenfold in wall time. Every second counts if the kernel's figures are unreadable.
"""

import os
import time
from pathlib import Path

from agent.sandbox.enter.system import descendants

LEAST = 0.1
"""Minimum share of wall seconds that counts, however little a child has run."""
SHORT_S = 0.2
"""Seconds below which every second counts: the kernel's figures, in ticks of 10 ms, are too coarse."""
_TICKS = os.sysconf("SC_CLK_TCK")
_ALIVE = ("R", "D")
"""States of a thread that runs, or waits for a processor or a disk."""


class Stopwatch:
    """Clock for the processes below `root`; with None, for a trusted child, a plain wall clock."""

    def __init__(self, root: int | None) -> None:
        self._root = root
        self._counted = 0.0
        self._since = time.monotonic()
        self._used_s: float | None = None
        """CPU seconds of the child at `_since`; None if they were not read."""

    def seconds(self) -> float:
        """Return the seconds that count so far."""
        now = time.monotonic()
        passed, self._since = now - self._since, now
        before, self._used_s, ready = self._used_s, None, False
        if self._root is not None and passed >= SHORT_S:
            self._used_s, ready = _account(self._root)
        counts = passed
        if ready and before is not None and self._used_s is not None:
            counts = min(passed, max(self._used_s - before, LEAST * passed))
        self._counted += counts
        return self._counted

    def skip(self) -> None:
        """Leave out the time since the last reading."""
        self._since, self._used_s = time.monotonic(), None


def _account(root: int) -> tuple[float | None, bool]:
    """Return the CPU seconds of all processes below `root`, reaped ones too, and True if any thread is ready.

    The seconds are None if no process could be read.
    """
    ticks, ready, seen = 0, False, False
    for process in descendants(root):
        try:
            fields = _stat(f"/proc/{process}/stat")
            threads = Path(f"/proc/{process}/task").iterdir()
            states = {_stat(f"{thread}/stat")[0] for thread in threads}
        except (OSError, IndexError):
            continue  # the process has ended meanwhile
        seen = True
        # utime, stime, cutime and cstime: fields 14 to 17 in proc(5). `fields` begins with the third.
        ticks += sum(int(field) for field in fields[11:15])
        ready = ready or not states.isdisjoint(_ALIVE)
    return (ticks / _TICKS if seen else None), ready


def _stat(path: str) -> list[str]:
    """Return the fields from the state on; the process name before it may contain any character."""
    with open(path) as file:  # noqa: PTH123 - read four times a second
        return file.read().rpartition(")")[2].split()
