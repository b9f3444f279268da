"""Measurement of a child's time, so that a process starved on a busy machine does not seem to hang.

Time counts in full while all the child's processes wait. While one of them is ready to run, only its CPU time
counts, as accounted by the operating system. At least a tenth of wall time always counts, so a limit extends
at most tenfold in wall time. All time counts if the CPU times cannot be read.
"""

import os
import time
from pathlib import Path

from agent.sandbox.enter.system import descendants

LEAST = 0.1
"""Minimum share of wall time that counts, even if a child got no processor."""
SHORT_S = 0.2
"""Minimum seconds between readings for CPU time to be used, which comes in ticks of 10 ms."""
_TICKS = os.sysconf("SC_CLK_TCK")
_ALIVE = ("R", "D")
"""States of a thread that runs, or waits for a processor or a disk."""


class Stopwatch:
    """Stopwatch for the descendants of the process `root`, or a wall clock if `root` is None."""

    def __init__(self, root: int | None) -> None:
        self._root = root
        self._counted = 0.0
        self._since = time.monotonic()
        self._used_s: float | None = None
        """CPU seconds of the child's processes at the time `_since`, or None if not read."""

    def seconds(self) -> float:
        """Return the seconds so far that count towards the child's limit."""
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
        """Leave out the time since the last call of `seconds`."""
        self._since, self._used_s = time.monotonic(), None


def _account(root: int) -> tuple[float | None, bool]:
    """Return the CPU seconds of all descendants of `root`, and True if any thread runs or is ready to run.

    The seconds include ended processes, and are None if no process could be read.
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
        # utime, stime, cutime and cstime are fields 14 to 17 in proc(5), and `fields` begins with field 3.
        ticks += sum(int(field) for field in fields[11:15])
        ready = ready or not states.isdisjoint(_ALIVE)
    return (ticks / _TICKS if seen else None), ready


def _stat(path: str) -> list[str]:
    """Return the fields of a /proc stat file after the process name, which may contain any character."""
    with open(path) as file:  # noqa: PTH123 - read four times a second
        return file.read().rpartition(")")[2].split()
