"""A lock between processes that is granted in the order in which the work began that asks for it.

Whoever wants it draws a ticket, a file in one folder named by when its work began and by a number, and keeps
an flock on it; of those that are still locked the first by name is next. So work that needs the lock
several times is not behind what began after it. Whoever has it keeps an flock on one more file, the turn. The
kernel drops all of them with the process, however that ends, so that a holder or a waiter that was killed
leaves its place at once. Tickets nobody locks are dead, and whoever waits behind one removes it. Numbers are
drawn under an flock of their own and never come back.

The folder has to be on a filesystem of one machine. `filelock` has no order: whoever polls first gets it.
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
    """One holder kept the lock for longer than the waiter would wait."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"process {holder}" if holder else "another process")


class _Ticket(NamedTuple):
    name: str
    """Those of earlier work sort first."""
    path: Path
    file: BinaryIO


class FifoLock:
    """The lock that `folder` stands for. Not reentrant; one instance belongs to one thread."""

    def __init__(self, folder: Path, begun_ns: int | None = None) -> None:
        """`begun_ns`: when the work began that asks, by `time.monotonic_ns`; None: whenever it asks."""
        self.folder = folder
        self._begun_ns = begun_ns
        self._ticket: _Ticket | None = None
        self._turn: BinaryIO | None = None

    @property
    def held(self) -> bool:
        return self._turn is not None

    def acquire(self, ahead: Callable[[int], None], limit_s: float) -> None:
        """Waits; `ahead` is told how many come first, whenever that changes.

        Raises Taken when the same holder has been waited for `limit_s`, and OSError where files cannot be
        locked. An exception of any kind, of a signal handler as well, gives the place up.
        """
        assert self._ticket is None
        self._ticket = self._drawn()
        try:
            self._wait(self._ticket.name, ahead, limit_s)
        except BaseException:
            self.release()
            raise

    def attempt(self) -> bool:
        """The lock where nobody has it or waits for it; whether it was had."""
        assert self._ticket is None
        self._ticket = self._drawn()
        mine = self._ticket.name
        others = (name for name in self._tickets() if name != mine)
        if not any(self._is_live(name) for name in others) and self._take(mine):
            return True
        self.release()
        return False

    def release(self) -> None:
        """Safe to repeat."""
        turn, self._turn = self._turn, None
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.path.unlink(missing_ok=True)
        if turn is not None:
            turn.close()
        if ticket is not None:
            # Closing comes last: an unlocked ticket that still counts would be taken for one of the dead.
            ticket.file.close()

    def _drawn(self) -> _Ticket:
        """A new ticket, locked before anybody can see it."""
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
        """The tickets that come first: who has the lock, if that is known, then who is next."""
        before = [name for name in self._tickets() if name < mine and self._is_live(name)]
        try:
            holder = (self.folder / _TURN).read_text()
        except OSError:
            holder = ""
        if _TICKET.fullmatch(holder) and holder != mine and self._is_live(holder):
            return [holder, *(name for name in before if name != holder)]
        return before

    def _take(self, mine: str) -> bool:
        """Takes the lock where nobody has it; whether it was had."""
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
        """Whether its owner still has it."""
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
    """The process that drew a ticket."""
    try:
        text = ticket.read_text()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
