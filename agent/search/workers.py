"""Threads that wait for several answers and verdicts at the same time."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any

Work = Callable[[], Any]
ROUND: ContextVar[int | None] = ContextVar("round", default=None)
"""Round whose work is running, for messages from inside that work."""


class Workers:
    """Runner for the work of each round: in a thread of its own, or in the caller's if only one is allowed.

    Threads are daemons: if no one waits for them, as after Ctrl-C, they end with the process.
    """

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._begun: dict[int, Work] = {}
        self._ended: SimpleQueue[tuple[int, Future[Any]]] = SimpleQueue()
        self._held: deque[tuple[int, Future[Any]]] = deque()

    def begin(self, number: int, work: Work) -> None:
        """Begin a round's work. Earlier work of the same round must have ended."""
        self._begun[number] = work
        if self._parallel > 1:
            threading.Thread(target=self._do, args=(number, work), daemon=True).start()

    def next(self, turn: int | None) -> tuple[int, Work]:
        """Wait for the given round, or with None for whichever ends first.

        Returns its number, and a function that returns its result or raises its error.
        """
        turn = turn if turn in self._begun else None
        if self._parallel == 1:
            number = turn or next(iter(self._begun))
            ROUND.set(number)
            return number, self._begun.pop(number)
        number, end = self._taken(turn)
        del self._begun[number]
        return number, end.result

    def _taken(self, turn: int | None) -> tuple[int, "Future[Any]"]:
        for index, (number, end) in enumerate(self._held):
            if turn in (None, number):
                del self._held[index]
                return number, end
        while True:
            number, end = self._ended.get()
            if turn in (None, number):
                return number, end
            self._held.append((number, end))

    def _do(self, number: int, work: Work) -> None:
        ROUND.set(number)
        end: Future[Any] = Future()
        try:
            end.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the outcome is asked for
            end.set_exception(error)
        self._ended.put((number, end))
