"""`agent bench` as a user runs it, on the emulator: judged, killed, interrupted, resumed, reported."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from e2e.commands import COMMAND, agent, environment
from interrupting import PATIENCE_S, interruptible

pytestmark = pytest.mark.timeout(900)

CORPUS = Path(__file__).resolve().parents[1] / "integrity"
PROBLEMS = ("hardtanh_scale", "tanh_scale", "relu_square")


@pytest.fixture
def suite(tmp_path: Path) -> tuple[str, ...]:
    """Two small problems with a right and a wrong answer, and one that nobody answers."""
    given = tmp_path / "given"
    given.mkdir()
    for name in PROBLEMS[:2]:
        right = (CORPUS / "programs" / "honest" / "built_at_first_call.py").read_text()
        (given / f"{name}.py").write_text(right)
    addresses = [str(CORPUS / "problems" / f"{name}.py") for name in PROBLEMS]
    (tmp_path / "suite.toml").write_text(f"problems = {json.dumps(addresses)}\n")
    return (
        "bench",
        "suite.toml",
        "--candidates",
        "given",
        "--executor",
        "emulator",
        "--quick",
        "--jobs",
        "1",
    )


def endings(cwd: Path) -> dict[str, str]:
    (bench,) = (cwd / "runs").glob("bench-*")
    done = agent("bench", "report", bench.name, "--format", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return {Path(one["address"]).stem: one["ending"] for one in json.loads(done.stdout)["outcomes"]}


def test_given_answers_are_judged_and_reported(suite: tuple[str, ...], tmp_path: Path) -> None:
    done = agent(*suite, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert endings(tmp_path) == {
        "hardtanh_scale": "verified", "tanh_scale": "unsolved", "relu_square": "open"
    }  # fmt: skip
    (bench,) = (tmp_path / "runs").glob("bench-*")
    listed = agent("runs", "--runs-dir", str(bench / "runs"), "--json", cwd=tmp_path)
    assert len(json.loads(listed.stdout)["runs"]) == 2
    page = agent("bench", "report", bench.name, "--format", "html", "--out", "report.html", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert "hardtanh_scale" in (tmp_path / "report.html").read_text()
    same = agent("bench", "compare", bench.name, bench.name, cwd=tmp_path)
    assert "3 problems in both" in same.stdout


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_a_bench_that_was_stopped_goes_on(
    suite: tuple[str, ...], tmp_path: Path, signal_number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*COMMAND, *suite], cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, preexec_fn=interruptible,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while not list(tmp_path.glob("runs/bench-*/runs/*/events.jsonl")):
        assert process.poll() is None, "the bench ended before it could be stopped"
        assert time.monotonic() < deadline, "no run ever began"
        time.sleep(0.05)
    process.send_signal(signal_number)
    code = process.wait(timeout=PATIENCE_S)
    assert code == (130 if signal_number is signal.SIGINT else -signal.SIGKILL)
    (bench,) = (tmp_path / "runs").glob("bench-*")
    assert settled(bench), "a process of the bench outlived it"
    done = agent("bench", "--resume", bench.name, "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert endings(tmp_path) == {
        "hardtanh_scale": "verified", "tanh_scale": "unsolved", "relu_square": "open"
    }  # fmt: skip
    events = {path: path.read_text() for path in bench.glob("runs/*/events.jsonl")}
    answers = [text.count('"kind":"completed"') for text in events.values() if text]
    assert answers == [1, 1], "nothing was asked twice"
    again = agent("bench", "--resume", bench.name, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    after = {path: path.read_text() for path in bench.glob("runs/*/events.jsonl")}
    assert after == events, "nothing was judged twice"


def settled(bench: Path) -> bool:
    """Whether nobody writes in the bench any more."""
    from agent.store.writer import is_being_written

    deadline = time.monotonic() + PATIENCE_S
    while any(is_being_written(path) for path in (bench / "runs").iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_a_problem_that_is_none_is_said_and_the_others_go_on(suite: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("class Model:\n    pass\n")
    (tmp_path / "given" / "broken.py").write_text("ModelNew = 1\n")
    addresses = [str(tmp_path / "broken.py"), str(CORPUS / "problems" / "tanh_scale.py")]
    (tmp_path / "suite.toml").write_text(f"problems = {json.dumps(addresses)}\n")
    done = agent(*suite, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {Path(one["address"]).stem: one for one in json.loads(done.stdout)["outcomes"]}
    assert found["broken"]["ending"] == "refused"
    assert "ends without get_inputs and get_init_inputs" in found["broken"]["reason"]
    assert found["tanh_scale"]["ending"] == "unsolved"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bench", "nothing"), "no suite nothing"),
        (("bench", "references", "--every", "0"), "give 1 for all problems"),
        (("bench", "references", "--candidates", "missing"), "no such folder"),
        (("bench", "--resume", "missing"), "no bench in"),
        (("bench", "report", "missing"), "no bench in"),
        (("bench", "references", "--resume", "x"), "either a SUITE or --resume"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = agent(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
