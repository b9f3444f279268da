"""index.sqlite: the summaries of the runs in a folder, derived from their transcripts and never the truth.

A row holds the size and the time of the run's events.jsonl as they were when it was read; where they differ,
the run is read anew. Opening a transcript for writing changes its time, so that a run which goes on is seen.
An index that is damaged or of another version is thrown away and made again, one that cannot be written is
done without. Processes may use it at the same time: the worst that happens is that a run is read twice.
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
"""Raised when RunSummary means something else than before; the schema version counts beside it."""

Progress = Callable[[int, int], None]
"""Told how many are read of the runs that have to be read."""
Stamp = tuple[int, int]
"""Bytes of events.jsonl and the time it was changed, in ns; zeros where there is none."""
Row = tuple[Any, ...]
"""The stamp, then the summary field by field."""

_COLUMNS = ("bytes", "changed_ns", *RunSummary._fields)
_ID, _STATE, _CREATED = (_COLUMNS.index(name) for name in ("id", "state", "created"))
_READ = f"SELECT {', '.join(_COLUMNS)} FROM runs"
_WRITE = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(_COLUMNS))})"

_SETTLED_S = 2.0
"""A file changed this recently may change again within one tick of its time: its row is not believed."""
_PATIENCE_S = 2.0
"""How long to wait for another process that writes the index."""
_BATCH = 200
"""Rows that are stored at a time, so that reading thousands can be broken off without losing all of it."""


def list_runs(runs_dir: Path, progress: Progress | None = None, *, anew: bool = False) -> list[RunSummary]:
    """All runs under `runs_dir`, newest first; a folder that is damaged is listed as such, never hidden.

    Reads the transcripts that have changed since the index knew them, with `anew` all of them. Raises
    EnvironmentFault when the folder cannot be read.
    """
    if holds_recorded(runs_dir):
        # A few runs in a folder that is shipped as it is: nothing is put beside them.
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
            # The stamp is older than what is read: a line written in between makes the row stale.
            known[name] = summary_of(Run(runs_dir / name, name))
            fresh.append(_row(_settled(stamps[name]), known[name]))
        _change(path, _WRITE, fresh)
    return newest_first(known.values())


def recorded_runs() -> list[RunSummary]:
    """The runs that are shipped, by name."""
    folders = sorted(run_folders(resources.folder("recorded")))
    return [summary_of(Run(path, f"{RECORDED}{path.name}")) for path in folders]


def newest_first(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    """By time of creation, then by id; those without a time last."""
    return sorted(
        summaries, key=lambda run: (run.created.timestamp() if run.created else 0.0, run.id), reverse=True
    )


def _scan(runs_dir: Path) -> dict[str, Stamp]:
    """The stamp of every run. Strings and not paths, which for thousands cost more than the system calls."""
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
    """None for what is no run."""
    try:
        status = os.stat(f"{folder}/{EVENTS}")  # noqa: PTH116 - see _scan
    except OSError:
        return (0, 0) if (Path(folder) / MANIFEST).is_file() else None
    return (status.st_size, status.st_mtime_ns)


def _settled(stamp: Stamp) -> Stamp:
    size, changed_ns = stamp
    return (size, -1) if time.time_ns() - changed_ns < _SETTLED_S * 1e9 else stamp


def _known(rows: Iterable[Row], stamps: Mapping[str, Stamp]) -> dict[str, RunSummary]:
    """What the rows say that still hold; nothing where they hold other things than were put there."""
    try:
        return {row[_ID]: _summary(row) for row in rows if _holds(row, stamps)}
    except (TypeError, ValueError):
        return {}


def _holds(row: Row, stamps: Mapping[str, Stamp]) -> bool:
    """Whether a row still says what the folder holds. A running run may end without a word."""
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
    """The index, empty where it is not of this version."""
    with closing(sqlite3.connect(path, timeout=_PATIENCE_S)) as database, database:
        version = VERSION * 1000 + SCHEMA_VERSION
        if database.execute("PRAGMA user_version").fetchone()[0] != version:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DROP TABLE IF EXISTS runs")
            database.execute(f"CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id))")
            database.execute(f"PRAGMA user_version = {version}")
        yield database


def _load(path: Path) -> list[Row]:
    """The rows; none where the index cannot be used, which is then removed if it is damaged."""
    try:
        with _opened(path) as database:
            return database.execute(_READ).fetchall()
    except sqlite3.OperationalError as error:
        # Not writable, locked for long, or no room: the transcripts say the same, only slower.
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            _discard(path)  # another table than ours
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        _discard(path)
    return []


def _change(path: Path, statement: str, values: list[Row]) -> None:
    if not values:
        return
    # Whatever keeps it from being written, a name that is not UTF-8 too: the list is right without it.
    with suppress(sqlite3.Error, UnicodeEncodeError), _opened(path) as database:
        database.executemany(statement, values)


def _discard(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-journal")):
        with suppress(OSError):
            name.unlink()
