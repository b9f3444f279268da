"""Measurement of many rows in turns: every process prepares some rows, then each row is timed alone.

No process compiles while a row is timed. A process that does not answer in time is ended and replaced, and
its rows are left for another run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait

from agent.kernels.sweep.grid import Entry
from agent.kernels.sweep.workers import Answer, Order, Worker

EACH = 4
"""Number of rows that a process prepares in one turn."""
STUCK_S = 90.0
"""Maximum seconds to prepare a turn's rows. It takes some ten seconds, and longer in the first turn, for
imports.
"""
TIMED_S = 30.0
ABOUT_S = 0.15
"""Estimated seconds to time one row."""


class Sweep:
    """Set of processes that measure rows until a given value of `time.monotonic`."""

    def __init__(
        self, start: Callable[[], Worker], count: int, deadline: float, mode: str | None = None
    ) -> None:
        self._start, self._deadline, self._mode = start, deadline, mode
        self._workers = [start() for _ in range(count)]

    def rows(self, entries: Sequence[Entry]) -> Iterator[Answer]:
        """Yield each row once it is measured, or why it is not. Rows beyond the deadline are left out."""
        names = [entry.name for entry in entries]
        in_a_turn = EACH * len(self._workers)
        for first in range(0, len(names), in_a_turn):
            if time.monotonic() >= self._deadline:
                return
            yield from self._turn(names[first : first + in_a_turn])

    def end(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()

    def _turn(self, names: Sequence[str]) -> Iterator[Answer]:
        # Deals at least two rows, because a shape's two directions are neighbours and share most of what is
        # compiled.
        each = max(2, -(-len(names) // len(self._workers)))
        shares = [names[first : first + each] for first in range(0, len(names), each)]
        dealt = dict(zip(range(len(self._workers)), shares, strict=False))
        for place, share in dealt.items():
            self._workers[place].connection.send(Order("ready", share, self._mode))
        ready: dict[int, list[str]] = {place: [] for place in dealt}
        yield from self._made_ready(dealt, ready)
        for place, share in ready.items():
            for name in share:
                if time.monotonic() < self._deadline:
                    yield self._timed(place, name)

    def _made_ready(self, dealt: dict[int, Sequence[str]], ready: dict[int, list[str]]) -> Iterator[Answer]:
        """Fill `ready` with prepared rows, and yield the faults. A process that is too slow is replaced."""
        open_rows = {place: len(share) for place, share in dealt.items()}
        rows = sum(open_rows.values())
        until = min(time.monotonic() + STUCK_S, self._deadline - ABOUT_S * rows)
        while any(open_rows.values()):
            busy = {self._workers[place].connection: place for place, count in open_rows.items() if count}
            found = wait(list(busy), timeout=max(0.0, until - time.monotonic()))
            for connection in found:
                place = busy[connection]
                answer = self._answer(place)
                if answer is None:
                    open_rows[place] = 0
                    yield from self._replaced(place, dealt[place], "its process ended")
                    ready[place] = []
                    continue
                open_rows[place] -= 1
                if answer.fault:
                    yield answer
                else:
                    ready[place].append(answer.name)
            if not found:
                for place, count in open_rows.items():
                    if count:
                        yield from self._replaced(place, dealt[place], "it was not ready in time")
                        ready[place] = []
                return

    def _timed(self, place: int, name: str) -> Answer:
        worker = self._workers[place]
        worker.connection.send(Order("time", (name,)))
        answer = self._answer(place) if worker.connection.poll(TIMED_S) else None
        if answer is not None:
            return answer
        (fault,) = self._replaced(place, (name,), "its process ended or hung while it was timed")
        return fault

    def _answer(self, place: int) -> Answer | None:
        """Return the next answer of a process, or None if the process has ended."""
        try:
            answer: Answer = self._workers[place].connection.recv()
        except (EOFError, OSError):
            return None
        return answer

    def _replaced(self, place: int, names: Sequence[str], why: str) -> Iterator[Answer]:
        self._workers[place].end()
        if time.monotonic() < self._deadline:
            self._workers[place] = self._start()
        for name in names:
            yield Answer(name, fault=why)
