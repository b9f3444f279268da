"""Events in time: processes that wait, and places that they take in turn."""

import heapq
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple


class Resource:
    """So many places, taken in the order in which they are asked for."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.waited_s = 0.0
        """Together, of all who got a place since it is counted."""
        self._taken = 0
        self._queue: deque[tuple[float, Process]] = deque()
        self._busy_s = self._changed_at = self._from = 0.0

    def count_from(self, now: float) -> None:
        """Forgets what was before."""
        self._account(now)
        self._busy_s, self.waited_s, self._from = 0.0, 0.0, now

    def busy_s(self, now: float) -> float:
        """Seconds that places were taken, together."""
        self._account(now)
        return self._busy_s

    def ask(self, now: float, process: "Process") -> bool:
        """Whether there is a place at once; else the process stands in the queue."""
        if self._taken == self.places:
            self._queue.append((now, process))
            return False
        self._account(now)
        self._taken += 1
        return True

    def leave(self, now: float) -> "Process | None":
        """Gives a place back; who waited longest has it from now on."""
        if self._queue:
            since, process = self._queue.popleft()
            self.waited_s += now - max(since, self._from)
            return process
        self._account(now)
        self._taken -= 1
        return None

    def _account(self, now: float) -> None:
        self._busy_s += self._taken * (now - self._changed_at)
        self._changed_at = now


class Step(NamedTuple):
    """What a process does next: it holds a place, or none, for so long."""

    at: Resource | None
    seconds: float


Steps = Iterator[Step]


class Process:
    """One of those that take places; `step` is what it does or waits for."""

    __slots__ = ("step", "steps")

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.step = Step(None, 0.0)


class Clock:
    """Runs processes through their steps, in the order of time; of two at one time, the first that came."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Process]] = []
        self._numbers = count()
        self.now = 0.0

    def begin(self, steps: Steps) -> None:
        self._next(Process(steps))

    def run(self, until: float) -> None:
        """Everything that happens before `until`."""
        while self._events and self._events[0][0] <= until:
            self.now, _, process = heapq.heappop(self._events)
            if process.step.at is not None and (waiting := process.step.at.leave(self.now)) is not None:
                self._hold(waiting)
            self._next(process)
        self.now = until

    def _next(self, process: Process) -> None:
        step = next(process.steps, None)
        if step is None:
            return
        process.step = step
        if step.at is None or step.at.ask(self.now, process):
            self._hold(process)

    def _hold(self, process: Process) -> None:
        heapq.heappush(self._events, (self.now + process.step.seconds, next(self._numbers), process))
