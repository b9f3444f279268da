"""A bench on disk: what was asked for, and the runs that were made for it."""

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
"""How the name of a bench's folder begins."""
VERSION = 1
"""Of the format of bench.json."""


class Limits(Record):
    """What all runs together may use; None is no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    """By the clock; each time it is resumed anew."""


class Asked(Record):
    """What a bench was asked to do."""

    suite: str
    cases: tuple[Case, ...]
    samples: int = 1
    """Independent runs of each problem."""
    candidates: str | None = None
    """Folder of answers to judge in place of asking for some."""
    limits: Limits = Limits()
    flags: dict[str, Any] = {}
    """Settings that were given on the command line, by name. Never a secret."""
    checks: dict[str, bool] = {}
    """Fields of `agent.api.Checks`."""


class BenchInfo(Record):
    """bench.json."""

    version: int = VERSION
    id: str
    created: datetime
    kernelwright: str
    """Version of kernelwright that made it."""
    asked: Asked


@dataclass(frozen=True)
class Bench:
    """A bench's folder."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def runs_dir(self) -> Path:
        return self.path / RUNS

    @property
    def info(self) -> BenchInfo:
        """Raises UsageError where bench.json is missing or damaged."""
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
    """Makes the folder of a new bench. Raises EnvironmentFault where `runs_dir` is not writable."""
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
    """The bench at a path, by id, or by a unique prefix of one.

    Raises UsageError that lists those there are.
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
    """The runs by their label, the latest last: it counts, and those before it came to no verdict.

    One that was stopped before its first event is none: it cannot be gone on with.
    """
    found: dict[str, tuple[store.Run, ...]] = {}
    for path in sorted(store.run_folders(bench.runs_dir)):
        run = store.Run(path, str(path))
        label = _label(run) if run.begun else None
        if label is not None:
            found[label] = (*found.get(label, ()), run)
    # Names tell runs of one second by chance.
    return {
        label: runs if len(runs) == 1 else tuple(sorted(runs, key=lambda run: run.info.created))
        for label, runs in found.items()
    }


@lru_cache(maxsize=1 << 16)
def _label(run: store.Run) -> str | None:
    """The task that a run is for, which stays; a bench asks again whenever one of its runs has ended."""
    label = run.info.settings.options.get("label")
    return label if isinstance(label, str) else None
