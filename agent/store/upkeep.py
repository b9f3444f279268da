"""Checking runs against their own hashes, and deleting unwanted runs.

Never deletes a recorded run, a run that is being written, or a folder that holds anything but a run.
"""

import fcntl
import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent.errors import AgentError
from agent.records import Completed, Evaluated, Prompted, Record, SecondLook, Unconfirmed, Unjudged
from agent.store.best import BEST
from agent.store.disk import writing
from agent.store.folder import MANIFEST, Run
from agent.store.log import Log
from agent.store.writer import BLOBS, EVENTS

_BORN_S = 60.0
"""Seconds for which a run without events is kept.

A new run takes its lock milliseconds after its folder is made.
"""
_ADDRESS = re.compile(r"[0-9a-f]{64}")
_OURS = frozenset({MANIFEST, EVENTS, BEST, BLOBS})
_BEGUN = ".new-"
"""Prefix of a file that `write_durably` has not finished. A leftover comes from a killed process."""


class Fault(Record):
    """One part of a run that differs from what was written."""

    run: str
    place: str
    """Place of the damage: `events.jsonl, line 3`, `blobs/1f35...`, `run.toml`."""
    reason: str

    def __str__(self) -> str:
        return f"{self.run}/{self.place}: {self.reason}"


class Deleted(Record):
    """Result of deleting one run, or of a dry run."""

    run: str
    bytes: int
    """Size in bytes of the files that were or would be deleted."""
    kept: str | None = None
    """Reason why the run is kept; None if it was or may be deleted."""


def verify(run: Run) -> tuple[Fault, ...]:
    """Recompute every hash: of each blob, of each prompt that an answer names, of each attempt's parents.

    Damaged lines and a damaged run.toml are faults too. A truncated last line is not, because a killed run
    ends with one.
    """
    found = [Fault(run=run.id, place=f"{BLOBS}/{name}", reason=reason) for name, reason in _blobs(run)]
    try:
        _ = run.info
    except AgentError as error:
        found.append(Fault(run=run.id, place=MANIFEST, reason=str(error)))
    try:
        log = run.read()
    except AgentError as error:
        return (*found, Fault(run=run.id, place=EVENTS, reason=str(error)))
    found += [_line(run, damage.line, damage.reason) for damage in log.problems]
    found += [_line(run, seq + 1, reason) for seq, reason in _references(log)]
    return tuple(found)


def delete(run: Run, *, dry: bool = False) -> Deleted:
    """Delete the run's folder; with `dry`, only report what would be deleted. Never raises for a kept run.

    Raises EnvironmentFault when the disk refuses.
    """
    with writing(run.path):
        if not run.path.is_dir():
            return Deleted(run=run.id, bytes=0, kept="it is gone already")
        size = sum(path.lstat().st_size for path in run.path.rglob("*") if not path.is_dir())
        kept = _stays(run)
        if kept is None and not dry and not _remove(run.path):
            kept = "it is running"
        return Deleted(run=run.id, bytes=size, kept=kept)


def _remove(folder: Path) -> bool:
    """Delete a run's files and folder; return False if another process writes it. Raises OSError."""
    # A new writer must first take this lock, and then finds the file deleted.
    with (folder / EVENTS).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        for path in sorted((folder / BLOBS).glob("*")):
            path.unlink()
        with suppress(FileNotFoundError):
            (folder / BLOBS).rmdir()
        # The transcript is deleted last, so that an interrupted deletion can be repeated.
        for path in sorted(folder.iterdir(), key=lambda path: path.name == EVENTS):
            path.unlink()
        folder.rmdir()
    return True


def _stays(run: Run) -> str | None:
    """Return the reason why a run must be kept, or None if it may be deleted."""
    if run.recorded:
        return "it is recorded"
    if run.path.is_symlink():
        return "it is a link to another folder"
    foreign = [path.name for path in run.path.iterdir() if not _is_ours(path)]
    foreign += [f"{BLOBS}/{path.name}" for path in (run.path / BLOBS).glob("*") if not _is_blob(path)]
    if foreign:
        return f"it holds what is not of a run: {foreign[0]}"
    events = run.path / EVENTS
    with suppress(FileNotFoundError):
        with events.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return "it is running"
        status = events.stat()
        if status.st_size == 0 and time.time() - status.st_mtime < _BORN_S:
            return "it has just been made"
    return None


def _is_ours(path: Path) -> bool:
    if path.name == BLOBS:
        return path.is_dir() and not path.is_symlink()
    return (path.name in _OURS or path.name.startswith(_BEGUN)) and (path.is_symlink() or path.is_file())


def _is_blob(path: Path) -> bool:
    named = _ADDRESS.fullmatch(path.name) or path.name.startswith(_BEGUN)
    return bool(named) and path.is_file()


def _blobs(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the name of each blob that is unreadable or does not match its hash, with the reason."""
    for path in sorted((run.path / BLOBS).glob("*")):
        if path.name.startswith(_BEGUN):
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            yield path.name, f"cannot be read ({error.strerror})"
            continue
        if hashlib.sha256(content).hexdigest() != path.name:
            yield path.name, "its content has another sha256"


def _references(log: Log) -> Iterator[tuple[int, str]]:
    """Yield the position of each event that refers to something no earlier event holds, with the reason."""
    asked: dict[int, str] = {}
    made: set[str] = set()
    numbers: set[int] = set()
    for event in log.events:
        match event:
            case Prompted():
                asked[event.round] = event.prompt.id
            case Completed() if event.round in asked and asked[event.round] != event.prompt_id:
                yield (
                    event.seq,
                    f"answers prompt {event.prompt_id[:12]}, not the {asked[event.round][:12]} asked",
                )
            case Evaluated():
                candidate = event.attempt.candidate
                for parent in (candidate.parent, candidate.second_parent):
                    if parent is not None and parent not in made:
                        yield event.seq, f"was made from candidate {parent}, which no attempt before it is"
                made.add(event.attempt.candidate.id)
                numbers.add(event.attempt.number)
            case SecondLook() | Unconfirmed() if event.number not in numbers:
                yield event.seq, f"is about attempt {event.number}, which no event before it judged"
            case Unjudged():
                made.add(event.candidate.id)


def _line(run: Run, number: int, reason: str) -> Fault:
    return Fault(run=run.id, place=f"{EVENTS}, line {number}", reason=reason)
