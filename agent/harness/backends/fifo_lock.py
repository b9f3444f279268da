"""Lock between processes, granted in the order in which the work that asks for it began.

A waiter draws a ticket and keeps an flock on it. A ticket is a file named by the start time of the work and
by a number. Among the tickets still locked, the first by name is next. Work that needs the lock several
times therefore stays ahead of work that began later.

The holder also keeps an flock on the file `turn`. The operating system's kernel drops a process's flocks when
it ends, so a killed holder or waiter leaves its place at once. The next waiter removes an unlocked ticket.
Numbers are drawn under a separate flock and are never reused.

The folder has to be on a local filesystem. The package `filelock` keeps no order: the first poller wins.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

POLL_S = 0.02
_COUNTER, _TURN = "counter", "turn"
_DIGITS = 20
_TICKET = re.compile(rf"\d{{{_DIGITS}}}-(\d{{{_DIGITS}}})")


class Taken(Exception):
    """Exception raised when one holder keeps the lock longer than the waiter is willing to wait."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"process {holder}" if holder else "another process")


class _Ticket(NamedTuple):
    name: str
    """File name; tickets of earlier work sort first."""
    path: Path
    file: BinaryIO


class FifoLock:
    """Lock whose queue is kept in `folder`. It is not reentrant, and one instance belongs to one thread."""

    def __init__(self, folder: Path, begun_ns: int | None = None) -> None:
        """Make the lock. `begun_ns` is the work's start by `time.monotonic_ns`; None means each request's."""
        self.folder = folder
        self._begun_ns = begun_ns
        self._ticket: _Ticket | None = None
        self._turn: BinaryIO | None = None

    @property
    def held(self) -> bool:
        return self._turn is not None

    def acquire(self, ahead: Callable[[int], None], limit_s: float) -> None:
        """Wait for the lock. `ahead` is called with the number of tickets in front when they change.

        Raises Taken after waiting `limit_s` seconds for one holder, and OSError if files cannot be locked.
        Any exception, including one from a signal handler, gives up the place.
        """
        assert self._ticket is None
        self._ticket = self._drawn()
        try:
            self._wait(self._ticket.name, ahead, limit_s)
        except BaseException:
            self.release()
            raise

    def attempt(self) -> bool:
        """Take the lock if nobody holds it or waits for it. Return True on success."""
        assert self._ticket is None
        self._ticket = self._drawn()
        mine = self._ticket.name
        others = (name for name in self._tickets() if name != mine)
        if not any(self._is_live(name) for name in others) and self._take(mine):
            return True
        self.release()
        return False

    def release(self) -> None:
        """Release the lock or give up the place in the queue. Safe to repeat."""
        turn, self._turn = self._turn, None
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.path.unlink(missing_ok=True)
        if turn is not None:
            turn.close()
        if ticket is not None:
            # The file is closed last, because a waiter removes any ticket file that is unlocked.
            ticket.file.close()

    def _drawn(self) -> _Ticket:
        """Return a new ticket, locked before any other process can see it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        counter = self.folder / _COUNTER
        counter.touch()
        with counter.open("r+b", buffering=0) as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            last = kept.read(_DIGITS) or b"0"
            drawn = (int(name.rpartition("-")[2]) for name in self._tickets())
            number = 1 + max([int(last) if last.isdigit() else 0, *drawn])
            kept.seek(0)
            kept.write(b"%0*d" % (_DIGITS, number))
            begun_ns = time.monotonic_ns() if self._begun_ns is None else self._begun_ns
            path = self.folder / f"{begun_ns:0{_DIGITS}d}-{number:0{_DIGITS}d}"
            unseen = self.folder / "drawn"
            file = unseen.open("wb", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(b"%d" % os.getpid())
            unseen.replace(path)
            return _Ticket(path.name, path, file)

    def _wait(self, mine: str, ahead: Callable[[int], None], limit_s: float) -> None:
        before: list[str] = []
        until = 0.0
        while (waiting := self._ahead(mine)) or not self._take(mine):
            if waiting[:1] != before[:1]:
                until = time.monotonic() + limit_s
            if waiting and waiting != before:
                ahead(len(waiting))
            if waiting and time.monotonic() > until:
                raise Taken(_process(self.folder / waiting[0]))
            before = waiting
            time.sleep(POLL_S)

    def _ahead(self, mine: str) -> list[str]:
        """Return the names of the tickets in front: the holder's, if known, then the waiters' in order."""
        before = [name for name in self._tickets() if name < mine and self._is_live(name)]
        try:
            holder = (self.folder / _TURN).read_text()
        except OSError:
            holder = ""
        if _TICKET.fullmatch(holder) and holder != mine and self._is_live(holder):
            return [holder, *(name for name in before if name != holder)]
        return before

    def _take(self, mine: str) -> bool:
        """Take the lock if nobody holds it. Return True on success."""
        turn = (self.folder / _TURN).open("ab", buffering=0)
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            turn.close()
            return False
        self._turn = turn
        turn.truncate(0)
        turn.write(mine.encode())
        return True

    def _is_live(self, name: str) -> bool:
        """Return True if the ticket's owner still holds its flock; remove a dead ticket."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        path.unlink(missing_ok=True)
        return False

    def _tickets(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if _TICKET.fullmatch(path.name))


def _process(ticket: Path) -> int | None:
    """Return the id of the process that drew a ticket, or None if the ticket is gone."""
    try:
        text = ticket.read_text()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
