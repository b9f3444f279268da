"""Jobs on disk.

A job is stored before the client is told that it is accepted, and its result before anyone gets it.
"""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent.api.service import Answer, Asked, Fault, State, answer_of
from agent.errors import EnvironmentFault

OURS = EnvironmentFault.exit_code
"""Exit code of a fault of this machine.

A job that ended with it is judged again when it is requested again.
"""
_TABLE = """CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, asked TEXT NOT NULL,
    state TEXT NOT NULL, answer TEXT)"""


class Full(Exception):
    """A queue that takes no more jobs."""


class Job(NamedTuple):
    id: str
    asked: Asked


class Ledger:
    """Jobs in one SQLite file; threads take turns."""

    def __init__(self, file: Path, most_queued: int) -> None:
        """Open the file and queue jobs again that were being judged when the last process ended.

        Raises EnvironmentFault for a file that cannot be used.
        """
        self._most, self._lock = most_queued, threading.Condition()
        try:
            self._base = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=FULL")
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._base.execute(_TABLE)
            self._base.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")
        except sqlite3.Error as error:
            raise EnvironmentFault(f"{file} cannot be used: {error}; is another service using it?") from error

    def accept(self, job: Job) -> State:
        """Return the state of a job, queueing a new one. Raises Full."""
        with self._lock:
            found = self._base.execute("SELECT state, answer FROM jobs WHERE id = ?", (job.id,)).fetchone()
            if found and not self._is_to_be_repeated(*found):
                state: State = found[0]
                return state
            if self.counts()["queued"] >= self._most:
                raise Full
            self._base.execute(
                "INSERT INTO jobs (id, asked, state) VALUES (?, ?, 'queued') "
                "ON CONFLICT (id) DO UPDATE SET state = 'queued', answer = NULL",
                (job.id, job.asked.model_dump_json()),
            )
            self._lock.notify()
            return "queued"

    def take(self, stopped: Callable[[], bool]) -> Job | None:
        """Wait for the oldest queued job and take it; None once stopped."""
        with self._lock:
            while not stopped():
                found = self._base.execute(
                    "SELECT id, asked FROM jobs WHERE state = 'queued' ORDER BY number LIMIT 1"
                ).fetchone()
                if found is None:
                    self._lock.wait(timeout=0.5)
                    continue
                self._base.execute("UPDATE jobs SET state = 'running' WHERE id = ?", (found[0],))
                return Job(found[0], Asked.model_validate_json(found[1]))
        return None

    def finish(self, answer: Answer) -> None:
        with self._lock:
            self._base.execute(
                "UPDATE jobs SET state = ?, answer = ? WHERE id = ?",
                (answer.state, answer.model_dump_json(), answer.id),
            )

    def give_back(self, job: Job) -> None:
        """Queue an unfinished job again."""
        with self._lock:
            self._base.execute("UPDATE jobs SET state = 'queued' WHERE id = ?", (job.id,))

    def answer(self, name: str) -> Answer | None:
        """Return the result of a job; None if it does not exist."""
        with self._lock:
            found = self._base.execute("SELECT state, answer FROM jobs WHERE id = ?", (name,)).fetchone()
        if found is None:
            return None
        if found[1] is None:
            return Answer(id=name, state=found[0])
        unread = Fault(exit_code=OURS, message="the stored answer is of another version; ask again")
        return answer_of(found[1]) or Answer(id=name, state="failed", fault=unread)

    def state(self, name: str) -> State | None:
        with self._lock:
            found = self._base.execute("SELECT state FROM jobs WHERE id = ?", (name,)).fetchone()
        return found[0] if found else None

    def listed(self, most: int) -> list[tuple[str, State]]:
        """Return id and state of up to `most` jobs, the newest first."""
        with self._lock:
            return self._base.execute(
                "SELECT id, state FROM jobs ORDER BY number DESC LIMIT ?", (most,)
            ).fetchall()

    def counts(self) -> dict[State, int]:
        with self._lock:
            found = dict(self._base.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        return {state: found.get(state, 0) for state in ("queued", "running", "done", "failed")}

    def wake(self) -> None:
        """Wake the threads that wait for a job, so that they check if they are stopped."""
        with self._lock:
            self._lock.notify_all()

    def close(self) -> None:
        with self._lock:
            self._base.close()

    @staticmethod
    def _is_to_be_repeated(state: State, answer: str | None) -> bool:
        if state != "failed" or answer is None:
            return False
        read = answer_of(answer)
        return read is None or (read.fault is not None and read.fault.exit_code == OURS)
