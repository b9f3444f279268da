"""One run's folder: creating it, finding it, and the settings of the run."""

import json
import re
import secrets
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent import __version__, resources
from agent.errors import EnvironmentFault, UnknownRun, UsageError
from agent.records import SCHEMA_VERSION, Attempt, Candidate, Record, misfit
from agent.store import log as transcript
from agent.store.disk import require_space, sync_folder, write_durably, writing
from agent.store.lines import Blobs, skip_text
from agent.store.migrations import NewerVersion, upgrade
from agent.store.writer import BLOBS, EVENTS, Writer

MANIFEST = "run.toml"
RECORDED = "recorded/"
TAIL_CHARS = 20
"""Maximum characters of the problem's name in an id. With more, a table of runs exceeds 80 columns."""

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_ATTEMPT = re.compile(r"(?P<run>.+):(?P<number>[0-9]+)")


class RunSettings(Record):
    """Settings that a run was started with. Stored as plain text, so they must not hold secrets."""

    problem: str
    """The PROBLEM argument as given."""
    problem_name: str
    provider: str
    model: str | None = None
    executor: str
    rounds: int
    patience: int
    options: dict[str, str | int | float | bool] = {}
    """Other settings that a resumed run needs unchanged to render and judge in the same way."""


class RunInfo(Record):
    """Content of run.toml, the description of a run."""

    schema_version: int = SCHEMA_VERSION
    id: str
    created: datetime
    version: str
    """Version of kernelwright that made the run."""
    settings: RunSettings


@dataclass(frozen=True)
class Run:
    """A run on disk, by its folder."""

    path: Path
    address: str
    """Name of the run on the command line: the id, `recorded/NAME`, or a path."""

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def recorded(self) -> bool:
        """Return True if the run lies in a folder of recorded runs, which are kept for good."""
        return holds_recorded(self.path.resolve().parent)

    @property
    def begun(self) -> bool:
        """Return True if any event of the run has been written."""
        try:
            return (self.path / EVENTS).stat().st_size > 0
        except OSError:
            return False

    @property
    def info(self) -> RunInfo:
        """Read run.toml. Raises UsageError when it is missing or damaged; the events may still be intact."""
        path = self.path / MANIFEST
        try:
            return RunInfo.model_validate(upgrade(tomllib.loads(path.read_text(encoding="utf-8"))))
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        except NewerVersion as error:
            raise UsageError(f"{path} was {error}") from error
        except ValidationError as error:
            raise UsageError(f"{path} is damaged: {misfit(error)}") from error
        except ValueError as error:
            raise UsageError(f"{path} is damaged: {error}") from error

    def read(self, *, texts: bool = True) -> transcript.Log:
        """Read the events. Without `texts`, long texts are empty and no blob is opened."""
        fetch = Blobs(self.path / BLOBS).fetch if texts else skip_text
        return transcript.read(self.path / EVENTS, fetch)

    def writer(self) -> Writer:
        """Open the transcript for appending; see Writer."""
        return Writer(self.path)


def create(runs_dir: Path, settings: RunSettings) -> Run:
    """Create the folder of a new run, with run.toml and an empty transcript.

    Raises EnvironmentFault when `runs_dir` is not writable or has too little free space, before any model is
    asked.
    """
    now = datetime.now(UTC)
    name = settings.problem_name.rsplit("/", 1)[-1].lower()
    tail = re.sub(r"[^a-z0-9]+", "_", name)[:TAIL_CHARS].strip("_")
    with writing(runs_dir):
        runs_dir.mkdir(parents=True, exist_ok=True)
        require_space(runs_dir)
        path = runs_dir / f"{now:%Y%m%d-%H%M%S}-{tail or 'problem'}-{secrets.token_hex(2)}"
        path.mkdir()
    info = RunInfo(id=path.name, created=now, version=__version__, settings=settings)
    with writing(path):
        (path / BLOBS).mkdir()
        (path / EVENTS).touch()
        write_durably(path / MANIFEST, _toml(info.model_dump(mode="json")).encode("utf-8", "replace"))
        sync_folder(runs_dir)
    return Run(path, path.name)


def open_run(address: str, runs_dir: Path) -> Run:
    """Find a run by its path, its id, a unique prefix of an id, or `recorded/NAME`.

    Raises UsageError that lists the runs it could have meant.
    """
    if address.startswith(RECORDED) and _is_run(
        shipped := resources.folder("recorded") / address[len(RECORDED) :]
    ):
        return Run(shipped, address)
    if _NAME.fullmatch(address) and _is_run(runs_dir / address):
        return Run(runs_dir / address, address)  # avoids listing thousands of other runs
    known = {path.name: path for path in run_folders(runs_dir)}
    if address in known:
        return Run(known[address], address)
    if address and _is_run(Path(address)):
        return Run(Path(address).resolve(), address)
    begun = [name for name in known if address and name.startswith(address)]
    if len(begun) == 1:
        return Run(known[begun[0]], begun[0])
    if begun:
        raise UsageError(
            f"{address!r} is the prefix of {len(begun)} runs: {_some(begun)}; give more of the id"
        )
    recorded = [f"{RECORDED}{path.name}" for path in run_folders(resources.folder("recorded"))]
    near = get_close_matches(address, [*known, *recorded], n=3, cutoff=0.5) or [
        *sorted(known)[-3:],
        *recorded,
    ]
    there = f"there are: {_some(near)}" if near else "there are none yet"
    raise UnknownRun(f"no run {address!r} in {runs_dir}; {there}")


def resolve_attempt(address: str, runs_dir: Path) -> tuple[Run, Attempt]:
    """Return the run and attempt K that `RUN:K` names. Raises UsageError that lists the existing attempts."""
    parts = _ATTEMPT.fullmatch(address)
    if parts is None:
        raise UsageError(f"{address!r} does not name an attempt; write RUN:K, where K counts from 1")
    run = open_run(parts["run"], runs_dir)
    attempts = run.read().attempts
    for attempt in attempts:
        if attempt.number == int(parts["number"]):
            return run, attempt
    numbers = transcript.attempt_numbers(attempts)
    raise UsageError(f"run {run.address} has no attempt {parts['number']}; it has: {numbers}")


def resolve_candidate(address: str, runs_dir: Path) -> Candidate:
    """Return the candidate that `RUN:K` names, even if it could not be judged. Raises UsageError."""
    parts = _ATTEMPT.fullmatch(address)
    found = open_run(parts["run"], runs_dir).read().unjudged if parts else ()
    for event in found:
        if parts and event.number == int(parts["number"]):
            return event.candidate
    return resolve_attempt(address, runs_dir)[1].candidate


def holds_recorded(folder: Path) -> bool:
    """Return True if the runs in a folder are kept for good: shipped, or tracked with the sources."""
    return folder.resolve().name == RECORDED.rstrip("/")


def run_folders(runs_dir: Path) -> list[Path]:
    """Return the folders under `runs_dir` that hold a run, unordered; empty if `runs_dir` does not exist."""
    if not runs_dir.is_dir():
        return []
    try:
        return [path for path in runs_dir.iterdir() if _is_run(path)]
    except OSError as error:
        raise EnvironmentFault(f"cannot read {runs_dir}: {error.strerror}") from error


def _is_run(path: Path) -> bool:
    return (path / MANIFEST).is_file() or (path / EVENTS).is_file()


def _some(names: Iterable[str], limit: int = 5) -> str:
    ordered = list(names)
    return ", ".join(ordered[:limit]) + (", ..." if len(ordered) > limit else "")


def _toml(table: dict[str, Any]) -> str:
    """Write a TOML document of scalars and sub-tables, which is all that run.toml holds. Omits None."""

    def write(table: dict[str, Any], name: str) -> list[str]:
        scalars = {key: value for key, value in table.items() if not isinstance(value, dict)}
        lines = [f"{_key(key)} = {_scalar(value)}" for key, value in scalars.items() if value is not None]
        for key, value in table.items():
            if isinstance(value, dict):
                inner = f"{name}.{_key(key)}" if name else _key(key)
                lines += ["", f"[{inner}]", *write(value, inner)]
        return lines

    return "\n".join(write(table, "")) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _scalar(name)


def _scalar(value: str | int | float | bool) -> str:
    # JSON's scalars are also TOML's, except that TOML requires DEL escaped and has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
