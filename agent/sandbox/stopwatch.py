"""How long a child has taken, as a limit should see it: a process that the machine starves does not hang.

Counted are the seconds in which its processes computed, and those in which all of them only waited. Seconds
in which one of them was ready to run count as far as it got a processor, by the kernel's own account, and a
tenth of them in any case: a limit is never exceeded by more than ten times on the clock. Where the kernel's
account cannot be read every second counts.
"""

import os
import time
from pathlib import Path

from agent.sandbox.enter.system import descendants

LEAST = 0.1
"""Share of the clock's seconds that counts however little a child has run."""
SHORT_S = 0.2
"""Below this the kernel's account, in ticks of 10 ms, is not worth reading: every second counts."""
_TICKS = os.sysconf("SC_CLK_TCK")
_ALIVE = ("R", "D")
"""States of a thread that runs, waits for a processor, or for a disk."""


class Stopwatch:
    """Runs from now on for the processes below `root`; for a trusted child, None, it is a plain clock."""

    def __init__(self, root: int | None) -> None:
        self._root = root
        self._counted = 0.0
        self._since = time.monotonic()
        self._used_s: float | None = None
        """Processor time of the child at `_since`; None where it was not read."""

    def seconds(self) -> float:
        """Those that count so far."""
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
        """What has passed since the last look does not count."""
        self._since, self._used_s = time.monotonic(), None


def _account(root: int) -> tuple[float | None, bool]:
    """Processor seconds of all processes below `root`, the dead ones that were waited for too, and whether a
    thread of theirs is ready to run.
    """
    ticks, ready, seen = 0, False, False
    for process in descendants(root):
        try:
            fields = _stat(f"/proc/{process}/stat")
            threads = Path(f"/proc/{process}/task").iterdir()
            states = {_stat(f"{thread}/stat")[0] for thread in threads}
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        seen = True
        # utime, stime, cutime and cstime: fields 14 to 17 of proc(5), counted here from the third.
        ticks += sum(int(field) for field in fields[11:15])
        ready = ready or not states.isdisjoint(_ALIVE)
    return (ticks / _TICKS if seen else None), ready


def _stat(path: str) -> list[str]:
    """The fields from the state on; the name before it may hold anything."""
    with open(path) as file:  # noqa: PTH123 - read four times a second
        return file.read().rpartition(")")[2].split()
