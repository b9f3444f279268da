"""Writing a run: numbered, dated, one writer, and a disk that refuses."""

import errno
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path

import pytest
from transcripts import LONG, PROBLEM, SETTINGS, STARTED, attempt, prompt

from agent.errors import EnvironmentFault, UsageError
from agent.records import Evaluated, Prompted
from agent.store import Run, create
from agent.store.disk import writing
from agent.store.writer import is_being_written


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path / "runs", SETTINGS)


def events_file(run: Run) -> Path:
    return run.path / "events.jsonl"


def test_events_are_numbered_dated_and_read_back(run: Run) -> None:
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(Evaluated(round=1, attempt=attempt(1)))
    with run.writer() as writer:
        writer.append(Prompted(round=2, prompt=prompt(LONG)))
    log = run.read()
    assert [event.seq for event in log.events] == [0, 1, 2]
    assert all(event.time and datetime.now(UTC) - event.time < timedelta(minutes=5) for event in log.events)
    assert log.started is not None
    assert log.started.problem == PROBLEM
    assert log.attempts == (attempt(1),)
    assert not log.problems
    assert not log.cut


def test_each_event_is_one_write(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []

    class Counting(FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            writes.append(bytes(data))
            return super().write(data)

    with run.writer() as writer:
        writer._file.close()
        writer._file = Counting(events_file(run), "ab")
        writer.append(STARTED)
        writer.append(Evaluated(round=1, attempt=attempt(1)))
    assert b"".join(writes) == events_file(run).read_bytes()
    assert [data.count(b"\n") for data in writes] == [1, 1]


def test_ctrl_c_leaves_a_whole_event_or_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    with run.writer() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", stopped)
            with pytest.raises(KeyboardInterrupt):
                writer.append(Prompted(round=1, prompt=prompt("first")))
        writer.append(Prompted(round=2, prompt=prompt("second")))
    log = run.read()
    assert not log.problems
    assert [event.seq for event in log.events] == [0, 1]


def test_a_second_writer_is_refused_until_the_first_is_closed(run: Run) -> None:
    with run.writer() as writer:
        assert is_being_written(run.path)
        with pytest.raises(UsageError, match="being written by another process"):
            run.writer()
        writer.append(STARTED)
    assert not is_being_written(run.path)
    with run.writer() as writer:
        writer.append(Prompted(round=1, prompt=prompt("a")))
    assert len(run.read().events) == 2


def test_an_incomplete_last_line_is_cut_before_anything_is_added(run: Run) -> None:
    with run.writer() as writer:
        writer.append(STARTED)
    with events_file(run).open("ab") as file:
        file.write(b'{"kind": "prompted", "rou')
    assert run.read().cut
    with run.writer() as writer:
        writer.append(Prompted(round=1, prompt=prompt("a")))
    log = run.read()
    assert [event.kind for event in log.events] == ["run_started", "prompted"]
    assert not log.problems
    assert not log.cut


def test_a_full_disk_is_one_line_and_exit_3() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    full = Path("/dev/full")
    with pytest.raises(EnvironmentFault, match="/dev/full.*full: free some space") as fault, writing(full):
        full.write_text("x")
    assert fault.value.exit_code == 3


def test_an_event_whose_text_cannot_be_stored_is_not_written(run: Run) -> None:
    (run.path / "blobs").rmdir()
    (run.path / "blobs").write_text("in the way")
    with run.writer() as writer, pytest.raises(EnvironmentFault, match="cannot write"):
        writer.append(Prompted(round=1, prompt=prompt(LONG)))
    assert events_file(run).read_bytes() == b""


FILL = """
import resource, sys
from pathlib import Path
from transcripts import STARTED, attempt, prompt
from agent.errors import EnvironmentFault
from agent.records import Evaluated, Prompted
from agent.store import Run
run = Run(Path(sys.argv[1]), "run")
with run.writer() as writer:
    writer.append(STARTED)
    size = (run.path / "events.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    try:
        writer.append(Prompted(round=1, prompt=prompt('short enough for the line' * 20)))
    except EnvironmentFault as fault:
        print(fault)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    writer.append(Evaluated(round=1, attempt=attempt(1)))
"""


def test_a_line_that_does_not_fit_leaves_nothing_behind(run: Run) -> None:
    """The limit lets 100 bytes of the line through, as a disk does that fills up in the middle."""
    tests = Path(__file__).parent.parent
    command = [sys.executable, "-c", FILL, str(run.path)]
    environment = {"PYTHONPATH": f"{tests}:{tests.parent}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "full: free some space" in done.stdout
    log = run.read()
    assert [event.kind for event in log.events] == ["run_started", "evaluated"]
    assert not log.problems


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "full"), (errno.EROFS, "not writable"), (errno.EIO, "Input/output error")],
)
def test_what_the_disk_said_becomes_what_to_do(tmp_path: Path, code: int, words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words) as fault, writing(tmp_path):
        raise OSError(code, "Input/output error")
    assert str(tmp_path) in str(fault.value)
