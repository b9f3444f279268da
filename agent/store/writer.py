"""Writer of a run's transcript: one process at a time, one durable line per event."""

import fcntl
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.errors import UsageError
from agent.records import Event
from agent.store.disk import sync_folder, writing
from agent.store.lines import Blobs, encode

EVENTS = "events.jsonl"
BLOBS = "blobs"

_PATIENCE_S = 1.0
"""Seconds to wait for the lock. `agent runs` holds it much more briefly, to see whether a run is alive."""


class Writer:
    """A `protocols.Transcript` for the run's folder, and a context manager.

    Opening takes the run's lock and removes an incomplete last line. Raises UsageError when another process
    writes the run, EnvironmentFault when the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVENTS
        self._blobs = Blobs(folder / BLOBS)
        with writing(self._path):
            self._file = self._path.open("ab", buffering=0)
        try:
            _lock(self._file)
            if os.fstat(self._file.fileno()).st_nlink == 0:
                raise UsageError(f"run {folder.name} was just deleted by another process")
            with writing(self._path):
                self._seq = self._drop_incomplete_line()
                # A changed modification time makes the index read the run again.
                os.utime(self._path)
                sync_folder(folder)
        except BaseException:
            self._file.close()
            raise

    def append(self, event: Event) -> None:
        """Number and date the event and write it to disk, its long texts first.

        Raises EnvironmentFault; then no part of the event's line stays in the file.
        """
        dated = event.model_copy(update={"seq": self._seq, "time": datetime.now(UTC)})
        with writing(self._path):
            line = encode(dated, self._blobs.keep)
            start = self._file.seek(0, os.SEEK_END)
            try:
                # The line is one write() call, unless the system accepts only part of it.
                written = self._file.write(line)
                while written < len(line):
                    written += self._file.write(line[written:])
                os.fsync(self._file.fileno())
            except OSError:
                with suppress(OSError):
                    self._file.truncate(start)
                raise
            finally:
                # Ctrl-C may arrive at any point: keep a complete line as an event, and remove a partial one.
                with suppress(OSError):
                    if self._file.seek(0, os.SEEK_END) == start + len(line):
                        self._seq += 1
                    else:
                        self._file.truncate(start)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop_incomplete_line(self) -> int:
        """Remove everything after the last newline; return the number of lines."""
        content = self._path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            self._file.truncate(complete)
            os.fsync(self._file.fileno())
        return content.count(b"\n", 0, complete)


def is_being_written(folder: Path) -> bool:
    """Return True if a living process holds the run's lock. The lock of a killed process is free."""
    try:
        with (folder / EVENTS).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lock(file: FileIO) -> None:
    """Take the exclusive lock, which ends with the file or the process. Raises UsageError when it is held."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                run = Path(str(file.name)).parent.name
                raise UsageError(
                    f"run {run} is being written by another process; wait for it or stop it"
                ) from error
            time.sleep(0.02)
