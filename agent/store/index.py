"""The file index.sqlite: summaries of the runs in a folder, derived from their transcripts.

Each row holds the size and modification time that the run's events.jsonl had when it was read. Where these
differ from the file, the run is read again. Opening a transcript for writing changes its time, which reveals
a resumed run. An index that is damaged or has another version is deleted and rebuilt. If it cannot be
written, the list works without it. Several processes may use it at once; at worst, a run is read twice.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from agent import resources
from agent.errors import EnvironmentFault
from agent.records import SCHEMA_VERSION
from agent.store.folder import MANIFEST, RECORDED, Run, holds_recorded, run_folders
from agent.store.summary import RunSummary, summary_of
from agent.store.writer import EVENTS

INDEX = "index.sqlite"
VERSION = 1
"""Version of the index. Increment it when RunSummary changes meaning; SCHEMA_VERSION counts as well."""

Progress = Callable[[int, int], None]
"""Callback that takes the number of runs read and the number of runs to read."""
Stamp = tuple[int, int]
"""Size of events.jsonl in bytes and its modification time in ns; zeros if the file does not exist."""
Row = tuple[Any, ...]
"""Stamp, followed by the fields of the summary."""

_COLUMNS = ("bytes", "changed_ns", *RunSummary._fields)
_ID, _STATE, _CREATED = (_COLUMNS.index(name) for name in ("id", "state", "created"))
_READ = f"SELECT {', '.join(_COLUMNS)} FROM runs"
_WRITE = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(_COLUMNS))})"

_SETTLED_S = 2.0
"""Seconds after a change during which a row is not trusted: a file may change twice in one clock tick."""
_PATIENCE_S = 2.0
"""Seconds to wait for another process that writes the index."""
_BATCH = 200
"""Rows stored at a time, so that interrupting a read of thousands of runs does not lose all of them."""


def list_runs(runs_dir: Path, progress: Progress | None = None, *, anew: bool = False) -> list[RunSummary]:
    """Return all runs under `runs_dir`, newest first. A damaged folder is listed as damaged, never hidden.

    Reads the transcripts that have changed since they were indexed; with `anew`, all of them. Raises
    EnvironmentFault when the folder cannot be read.
    """
    if holds_recorded(runs_dir):
        # A shipped folder holds only a few runs and must not be changed, so it gets no index.
        return newest_first(summary_of(Run(path, path.name)) for path in run_folders(runs_dir))
    stamps = _scan(runs_dir)
    path = runs_dir / INDEX
    if anew:
        _discard(path)
    rows = _load(path) if stamps else []
    known = _known(rows, stamps)
    _change(path, "DELETE FROM runs WHERE id = ?", [(row[_ID],) for row in rows if row[_ID] not in stamps])
    stale = [name for name in stamps if name not in known]
    for start in range(0, len(stale), _BATCH):
        fresh: list[Row] = []
        for done, name in enumerate(stale[start : start + _BATCH], start):
            if progress:
                progress(done, len(stale))
            # The stamp is older than the content: a line written in between makes the row stale.
            known[name] = summary_of(Run(runs_dir / name, name))
            fresh.append(_row(_settled(stamps[name]), known[name]))
        _change(path, _WRITE, fresh)
    return newest_first(known.values())


def recorded_runs() -> list[RunSummary]:
    """Return the shipped runs, sorted by name."""
    folders = sorted(run_folders(resources.folder("recorded")))
    return [summary_of(Run(path, f"{RECORDED}{path.name}")) for path in folders]


def newest_first(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    """Sort runs by creation time, then by id, newest first; runs without a time come last."""
    return sorted(
        summaries, key=lambda run: (run.created.timestamp() if run.created else 0.0, run.id), reverse=True
    )


def _scan(runs_dir: Path) -> dict[str, Stamp]:
    """Return the stamp of every run.

    Uses strings: for thousands of runs, paths cost more than the system calls.
    """
    stamps: dict[str, Stamp] = {}
    try:
        with os.scandir(runs_dir) as entries:
            for entry in entries:
                if stamp := _stamp(entry.path):
                    stamps[entry.name] = stamp
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise EnvironmentFault(f"cannot read {runs_dir}: {error.strerror}") from error
    return stamps


def _stamp(folder: str) -> Stamp | None:
    """Return the stamp of a run's folder, or None if it holds no run."""
    try:
        status = os.stat(f"{folder}/{EVENTS}")  # noqa: PTH116 - see _scan
    except OSError:
        return (0, 0) if (Path(folder) / MANIFEST).is_file() else None
    return (status.st_size, status.st_mtime_ns)


def _settled(stamp: Stamp) -> Stamp:
    size, changed_ns = stamp
    return (size, -1) if time.time_ns() - changed_ns < _SETTLED_S * 1e9 else stamp


def _known(rows: Iterable[Row], stamps: Mapping[str, Stamp]) -> dict[str, RunSummary]:
    """Return the summaries of rows that are still valid, or none if any row has unexpected contents."""
    try:
        return {row[_ID]: _summary(row) for row in rows if _holds(row, stamps)}
    except (TypeError, ValueError):
        return {}


def _holds(row: Row, stamps: Mapping[str, Stamp]) -> bool:
    """Return True if a row is still valid. A running run may end without changing its files."""
    return row[:2] == stamps.get(row[_ID]) and row[_STATE] not in ("running", "damaged")


def _summary(row: Row) -> RunSummary:
    created = datetime.fromisoformat(row[_CREATED]) if row[_CREATED] else None
    return RunSummary._make((*row[2:_CREATED], created, *row[_CREATED + 1 :]))


def _row(stamp: Stamp, summary: RunSummary) -> Row:
    row = [*stamp, *summary]
    row[_CREATED] = summary.created.isoformat() if summary.created else None
    return tuple(row)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the index; recreate it empty if it has another version."""
    with closing(sqlite3.connect(path, timeout=_PATIENCE_S)) as database, database:
        version = VERSION * 1000 + SCHEMA_VERSION
        if database.execute("PRAGMA user_version").fetchone()[0] != version:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DROP TABLE IF EXISTS runs")
            database.execute(f"CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id))")
            database.execute(f"PRAGMA user_version = {version}")
        yield database


def _load(path: Path) -> list[Row]:
    """Return all rows, or none where the index cannot be used. Deletes a damaged index."""
    try:
        with _opened(path) as database:
            return database.execute(_READ).fetchall()
    except sqlite3.OperationalError as error:
        # The index is not writable, locked for long, or without space. The transcripts hold the same data,
        # but take longer to read.
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            _discard(path)  # a different table
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        _discard(path)
    return []


def _change(path: Path, statement: str, values: list[Row]) -> None:
    if not values:
        return
    # Ignore every reason why the index cannot be written, such as a name that is not UTF-8: the list of runs
    # is right anyway.
    with suppress(sqlite3.Error, UnicodeEncodeError), _opened(path) as database:
        database.executemany(statement, values)


def _discard(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-journal")):
        with suppress(OSError):
            name.unlink()
