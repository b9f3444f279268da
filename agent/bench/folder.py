"""A bench on disk: its settings and the runs made for it."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent import __version__, store
from agent.bench.suite import Case
from agent.errors import UsageError
from agent.records import Record, misfit
from agent.store.disk import require_space, sync_folder, write_durably, writing

MANIFEST, RUNS = "bench.json", "runs"
PREFIX = "bench-"
"""Prefix of the name of a bench's folder."""
VERSION = 1
"""Version of the format of bench.json."""


class Limits(Record):
    """Limits for all runs of the bench together; None means no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    """Wall-clock seconds; start again each time the bench is resumed."""


class Asked(Record):
    """Settings that a bench was started with."""

    suite: str
    cases: tuple[Case, ...]
    samples: int = 1
    """Number of independent runs of each problem."""
    candidates: str | None = None
    """Folder with answers to judge instead of asking a model."""
    limits: Limits = Limits()
    flags: dict[str, Any] = {}
    """Settings given on the command line, by name. Never a secret."""
    checks: dict[str, bool] = {}
    """Checks of every candidate: values of fields of `agent.api.Checks`."""


class BenchInfo(Record):
    """Content of bench.json, the description of a bench."""

    version: int = VERSION
    id: str
    created: datetime
    kernelwright: str
    """Version of kernelwright that made the bench."""
    asked: Asked


@dataclass(frozen=True)
class Bench:
    """Folder of one bench."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def runs_dir(self) -> Path:
        return self.path / RUNS

    @property
    def info(self) -> BenchInfo:
        """Read bench.json. Raises UsageError if it is missing or damaged."""
        file = self.path / MANIFEST
        try:
            info = BenchInfo.model_validate_json(file.read_bytes())
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
        except ValidationError as error:
            raise UsageError(f"{file} is damaged: {misfit(error)}") from error
        if info.version > VERSION:
            raise UsageError(f"{file} was made by a newer kernelwright ({info.kernelwright})")
        return info


def create(runs_dir: Path, asked: Asked) -> Bench:
    """Create the folder of a new bench. Raises EnvironmentFault if `runs_dir` is not writable."""
    now = datetime.now(UTC)
    with writing(runs_dir):
        runs_dir.mkdir(parents=True, exist_ok=True)
        require_space(runs_dir)
        path = runs_dir / f"{PREFIX}{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        (path / RUNS).mkdir(parents=True)
        info = BenchInfo(id=path.name, created=now, kernelwright=__version__, asked=asked)
        write_durably(path / MANIFEST, info.model_dump_json(indent=1).encode())
        sync_folder(runs_dir)
    return Bench(path)


def open_bench(address: str, runs_dir: Path) -> Bench:
    """Find a bench by its path, its id, or a unique prefix of an id.

    Raises UsageError that lists the existing benches.
    """
    for path in (Path(address), runs_dir / address):
        if address and (path / MANIFEST).is_file():
            return Bench(path.resolve())
    known = sorted(file.parent for file in runs_dir.glob(f"*/{MANIFEST}")) if runs_dir.is_dir() else []
    begun = [path for path in known if address and path.name.startswith(address)]
    if len(begun) == 1:
        return Bench(begun[0].resolve())
    there = ", ".join(path.name for path in (begun or known)[-5:]) or "none yet"
    why = f"is the prefix of {len(begun)} benches" if begun else f"is no bench in {runs_dir}"
    raise UsageError(f"{address!r} {why}; there are: {there}")


def runs_of(bench: Bench) -> dict[str, tuple[store.Run, ...]]:
    """Return the runs of each label, the latest last.

    Only the latest run counts; the earlier ones came to no verdict.

    A run that was stopped before its first event is left out, because it cannot be resumed.
    """
    found: dict[str, tuple[store.Run, ...]] = {}
    for path in sorted(store.run_folders(bench.runs_dir)):
        run = store.Run(path, str(path))
        label = _label(run) if run.begun else None
        if label is not None:
            found[label] = (*found.get(label, ()), run)
    # The names of runs of the same second differ in a random suffix, which does not order them.
    return {
        label: runs if len(runs) == 1 else tuple(sorted(runs, key=lambda run: run.info.created))
        for label, runs in found.items()
    }


@lru_cache(maxsize=1 << 16)
def _label(run: store.Run) -> str | None:
    """Return the label of a run's task, which never changes.

    The label is cached, since a bench reads it again after each run.
    """
    label = run.info.settings.options.get("label")
    return label if isinstance(label, str) else None
