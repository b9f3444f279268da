"""A lock between processes that is granted in the order in which it was asked for.

Whoever wants it draws a numbered ticket, a file in one folder, and keeps an flock on that file; the lowest
ticket that is still locked has the lock. The kernel drops the flock with the process, however that ends, so
that a holder or a waiter that was killed leaves its place at once. Tickets nobody locks are dead, and whoever
waits behind one removes it. Numbers are drawn under an flock of their own and never come back.

The folder has to be on a filesystem of one machine. `filelock` has no order: whoever polls first gets it.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

POLL_S = 0.02
_COUNTER = "counter"
_DIGITS = 20


class Taken(Exception):
    """One holder kept the lock for longer than the waiter would wait."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"process {holder}" if holder else "another process")


class _Ticket(NamedTuple):
    number: int
    path: Path
    file: BinaryIO


class FifoLock:
    """The lock that `folder` stands for. Not reentrant; one instance belongs to one thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ticket: _Ticket | None = None

    @property
    def held(self) -> bool:
        return self._ticket is not None

    def acquire(self, ahead: Callable[[int], None], limit_s: float) -> None:
        """Waits; `ahead` is told how many come first, whenever that changes.

        Raises Taken when the same holder has been waited for `limit_s`, and OSError where files cannot be
        locked. An exception of any kind, of a signal handler as well, gives the place up.
        """
        assert self._ticket is None
        ticket = self._drawn()
        try:
            self._wait(ticket.number, ahead, limit_s)
            self._ticket = ticket
        except BaseException:
            _give_up(ticket)
            raise

    def attempt(self) -> bool:
        """The lock where nobody has it or waits for it; whether it was had."""
        assert self._ticket is None
        ticket = self._drawn()
        if any(other < ticket.number and self._is_live(other) for other in self._numbers()):
            _give_up(ticket)
            return False
        self._ticket = ticket
        return True

    def release(self) -> None:
        """Safe to repeat."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            _give_up(ticket)

    def _drawn(self) -> _Ticket:
        """A new ticket, locked before anybody with a higher number exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        counter = self.folder / _COUNTER
        counter.touch()
        with counter.open("r+b", buffering=0) as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            last = kept.read(_DIGITS) or b"0"
            number = 1 + max([int(last) if last.isdigit() else 0, *self._numbers()])
            kept.seek(0)
            kept.write(b"%0*d" % (_DIGITS, number))
            path = self._path(number)
            file = path.open("x+b", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(b"%d" % os.getpid())
            return _Ticket(number, path, file)

    def _wait(self, number: int, ahead: Callable[[int], None], limit_s: float) -> None:
        before: list[int] = []
        until = 0.0
        while waiting := [other for other in self._numbers() if other < number and self._is_live(other)]:
            if waiting[:1] != before[:1]:
                until = time.monotonic() + limit_s
            if waiting != before:
                ahead(len(waiting))
            if time.monotonic() > until:
                raise Taken(self._holder(waiting[0]))
            before = waiting
            time.sleep(POLL_S)

    def _is_live(self, number: int) -> bool:
        """Whether its owner still has it. Only for numbers below one's own: those have been locked before."""
        try:
            with self._path(number).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        self._path(number).unlink(missing_ok=True)
        return False

    def _holder(self, number: int) -> int | None:
        try:
            text = self._path(number).read_text()
        except OSError:
            return None
        return int(text) if text.isdigit() else None

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self.folder.iterdir() if path.name.isdigit())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:0{_DIGITS}d}"


def _give_up(ticket: _Ticket) -> None:
    # Closing comes last: nobody may take an unlocked ticket for one of the dead while it still counts.
    ticket.path.unlink(missing_ok=True)
    ticket.file.close()
