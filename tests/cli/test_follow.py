"""Tests of `agent show RUN --follow`: during a run, at its end, and after an interruption."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from interrupting import PATIENCE_S, interruptible
from transcripts import SETTINGS, STARTED, Answers, Judge, attempt, completion, converse, evaluation, prompt
from typer.testing import CliRunner

from agent.cli.app import app
from agent.records import Completed, Evaluated, Prompted, RunFinished
from agent.store import Run, create

ROOT = Path(__file__).parent.parent.parent
RUNS = Path("runs")


def following(run: Run) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "agent.cli", "show", str(run.path), "--follow"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=interruptible,
    )  # fmt: skip


def test_a_finished_run_is_told_and_it_ends(finished: Run) -> None:
    result = CliRunner().invoke(app, ["show", finished.id, "--follow"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "level1/softmax, provider scripted"
    assert "round 2: no candidate" in lines
    assert "round 4: attempt 3 (model)  verified (emulator, shrunken)  0.5 s" in lines
    assert lines[-2:] == ["verified:", "    verified after 4 rounds"]
    assert max(map(len, lines)) <= 80


def test_a_killed_run_says_how_to_go_on(killed: Run) -> None:
    result = CliRunner().invoke(app, ["show", killed.id, "--follow"])
    assert result.exit_code == 0
    assert "attempt 2 (mend of 1)  verified (GPU, 2.00x)  +1 -1" in result.stdout
    assert result.stdout.endswith(
        f"no process is writing this run; continue it with: agent run --resume {killed.id}\n"
    )


def test_what_is_written_meanwhile_is_told_and_the_end_ends_it() -> None:
    run = create(RUNS, SETTINGS)
    first, second = attempt(1), attempt(2, evaluation(), parent=attempt(1).candidate.id)
    with run.writer() as writer:
        writer.append(STARTED)
        with following(run) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "level1/softmax, provider scripted\n"
            writer.append(Prompted(round=1, prompt=prompt("a")))
            assert process.stdout.readline() == "round 1: asked (repair)\n"
            writer.append(Completed(round=1, prompt_id="p", completion=completion("text")))
            assert process.stdout.readline() == "round 1: answered, 4 characters, 1.5 s\n"
            writer.append(Evaluated(round=1, attempt=first, seconds=2.0))
            assert process.stdout.readline() == "round 1: attempt 1 (model)  incorrect  2.0 s\n"
            assert "wrong-statistics" in process.stdout.readline()
            writer.append(Evaluated(round=2, attempt=second))
            assert process.stdout.readline() == "round 2: attempt 2 (model, from 1)  incorrect  +1 -1\n"
            writer.append(RunFinished(outcome="no_kernel", best=None, reason="no more rounds"))
            writer.close()
            out, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")
    assert out.splitlines()[-2:] == ["no_kernel:", "    no more rounds"]


def test_ctrl_c_is_130_and_leaves_the_run_alone() -> None:
    run = create(RUNS, SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
        before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
        with following(run) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, said) == (130, "error: interrupted\n")
        assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
        writer.append(Prompted(round=1, prompt=prompt("a")))
    assert len(run.read().events) == 2


def test_two_may_follow_while_the_run_goes_on() -> None:
    run = create(RUNS, SETTINGS)
    children = []
    with run.writer() as writer:
        writer.append(STARTED)
        children = [following(run) for _ in range(2)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()
        thread = threading.Thread(target=converse, args=(Answers(), Judge(), writer))
        thread.start()
        thread.join()
    ends = [child.communicate(timeout=PATIENCE_S)[0].splitlines()[-1] for child in children]
    assert ends == ["    verified after 4 rounds"] * 2
    assert not run.read().problems
