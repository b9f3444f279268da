"""The recorded results: one JSON document for each kind of run, an entry for each thing that was judged.

Only facts are in there, figures and our own words; no text of a foreign repository.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from agent import __version__
from benchmarks import storage

ROOT, RECORDS = storage.ROOT, storage.FOREIGN
Entry = dict[str, Any]
Item = TypeVar("Item")
WORDS = 400
"""Characters of a reason that are kept."""


def read(path: Path) -> dict[str, Entry]:
    """The entries by their ids; none where there is no document."""
    if not path.is_file():
        return {}
    return {entry["id"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))["results"]}


def write(path: Path, entries: Iterable[Entry]) -> None:
    """All at once or not at all: whoever interrupts a run can go on from the document."""
    document = {
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "results": sorted(entries, key=lambda entry: natural(entry["id"])),
    }
    storage.write(path, document)


def at_once(work: Callable[[Item], Entry], items: Iterable[Item], jobs: int) -> Iterator[Entry]:
    """What `work` makes of each, `jobs` at a time, as soon as it is there."""
    with ThreadPoolExecutor(jobs) as pool:
        pending = [pool.submit(work, item) for item in items]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            for future in pending:
                future.cancel()


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts level1/9 before level1/10."""
    parts = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
