"""Storage of a sweep: one file per kernel, with a JSON line per row, written when the row is measured.

A later line of the same row on the same GPU replaces an earlier one. A truncated line is ignored. Torch is
not imported here.
"""

import math
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from agent.errors import EnvironmentFault
from agent.kernels.manifest import Times
from agent.records import Record

SUFFIX = ".jsonl"
ENOUGH = 0.97
"""Ratio to the fastest peer below which a row counts as behind."""


class Row(Record):
    """One shape, dtype and direction of a kernel, all sides timed in one run."""

    name: str
    kernel: str
    source: str
    """Model or use that has this shape."""
    shape: tuple[int, ...]
    dtype: str
    setting: str
    is_held_back: bool
    gpu: str
    driver: str
    cuda: str
    torch: str
    date: str
    commit: str
    files: str
    """Digest of the kernel's files at the time of the measurement."""
    ours_ms: Times
    peers_ms: dict[str, Times]
    copy_ms: Times | None = None
    """Time to copy as many bytes as the call has to move; None for products."""
    in_a_row_ms: dict[str, float] = {}
    """Milliseconds per call of each side, called back to back, for short calls. Host time counts."""
    best: str
    ratio: float
    """Fastest peer's time over the kernel's time."""
    ratio_ci: tuple[float, float]
    errors: dict[str, tuple[float, float]] = {}
    """Largest and rms error against float64, of `ours`, torch (`native`) and the peers, on a sample."""
    notes: dict[str, str] = {}
    """Reason for each missing peer, by the peer's name."""

    @property
    def place(self) -> tuple[str, str]:
        """Return the key by which a later measurement replaces this one."""
        return self.gpu, self.name

    @property
    def ratio_in_a_row(self) -> float | None:
        """Return the fastest peer's time back to back over the kernel's, or None without such times."""
        ours = self.in_a_row_ms.get("ours")
        peers = [ms for side, ms in self.in_a_row_ms.items() if side != "ours"]
        return None if ours is None or not peers else min(peers) / ours

    @property
    def copy_share(self) -> float | None:
        """Return a copy's time over the kernel's time, or None without a copy's time."""
        return None if self.copy_ms is None else self.copy_ms.p50 / self.ours_ms.p50


def load(folder: Path, kernel: str) -> dict[tuple[str, str], Row]:
    """Return the last measurement of each row. Raises EnvironmentFault for a file that cannot be read."""
    path = folder / f"{kernel}{SUFFIX}"
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    found = {}
    for line in lines:
        try:
            row = Row.model_validate_json(line)
        except ValidationError:
            continue
        found[row.place] = row
    return found


def keep(folder: Path, row: Row) -> None:
    """Append the row to its kernel's file. Raises EnvironmentFault if the file cannot be written."""
    path = folder / f"{row.kernel}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as out:
            out.write(row.model_dump_json(exclude_defaults=True) + "\n")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror}; --to names another folder") from error


def share_enough(ratios: Iterable[float]) -> float:
    """Return the share of these ratios that are not behind; NaN if there are none."""
    known = [ratio >= ENOUGH for ratio in ratios]
    return sum(known) / len(known) if known else math.nan
