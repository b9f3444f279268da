"""What `agent runs` knows of each run."""

import shutil
import subprocess
import sys
from pathlib import Path

from transcripts import EMULATOR, SETTINGS, STARTED, Answers, Judge, converse

from agent.records import RunFinished
from agent.store import Run, create, list_runs, state_of

HOLD = """
import sys
from pathlib import Path
from agent.store import Run
with Run(Path(sys.argv[1]), "run").writer():
    print("held", flush=True)
    sys.stdin.read()
"""


def ended(runs: Path, outcome: str) -> Run:
    run = create(runs, SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(RunFinished.model_validate({"outcome": outcome, "best": None, "reason": outcome}))
    return run


def test_states_follow_from_the_lock_and_the_last_event(tmp_path: Path) -> None:
    states = {
        ended(tmp_path, "interrupted").id: "interrupted",
        ended(tmp_path, "failed").id: "failed",
        ended(tmp_path, "budget").id: "finished",
        ended(tmp_path, "no_kernel").id: "finished",
        create(tmp_path, SETTINGS).id: "killed",
    }
    damaged = create(tmp_path, SETTINGS)
    (damaged.path / "run.toml").write_text("?")
    states[damaged.id] = "damaged"
    held = create(tmp_path, SETTINGS)
    states[held.id] = "running"
    command = [sys.executable, "-c", HOLD, str(held.path)]
    root = {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert {run.id: run.state for run in list_runs(tmp_path)} == states
        process.kill()
    assert state_of(held, held.read()) == "killed"


def test_a_resumed_run_is_not_at_its_old_end(tmp_path: Path) -> None:
    run = ended(tmp_path, "interrupted")
    with run.writer() as writer:
        writer.append(STARTED)
    assert run.read().finished is None


def test_newest_first_and_without_opening_a_blob(tmp_path: Path) -> None:
    runs = [create(tmp_path, SETTINGS) for _ in range(3)]
    with runs[1].writer() as writer:
        converse(Answers(), Judge(), writer)
    shutil.rmtree(runs[1].path / "blobs")
    listed = list_runs(tmp_path)
    assert [run.id for run in listed] == [run.id for run in reversed(runs)]
    summary = listed[1]
    assert (summary.rounds, summary.attempts, summary.damaged_lines) == (4, 3, 0)
    assert (summary.outcome, summary.best_attempt) == ("verified", 3)
    assert summary.best is not None
    assert summary.best.scope == EMULATOR
    assert (summary.tokens, summary.seconds, summary.partial) == (None, 7.5, True)


def test_no_folder_is_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []


def test_other_folders_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    (tmp_path / "notes.txt").touch()
    assert list_runs(tmp_path) == []
