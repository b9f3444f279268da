"""A run that is killed while it judges reads, resumes, and asks nothing twice."""

import signal
import subprocess
import time
from pathlib import Path

import endpoint
import pytest
from e2e.commands import COMMAND, agent, answer, environment, shown
from interrupting import PATIENCE_S, interruptible

pytestmark = pytest.mark.timeout(900)


def test_sigkill_during_two_evaluations(tmp_path: Path) -> None:
    answers = [endpoint.stream(answer(number)) for number in (2, 3, 4)]
    with endpoint.Endpoint(answers) as server:
        options = ("--base-url", server.base_url, "--executor", "emulator")
        start = ("run", "level1/group_norm", "--model", endpoint.MODEL, *options)
        kill_while_judging(start, completed=1, cwd=tmp_path)
        (folder,) = (tmp_path / "runs").iterdir()
        assert shown(folder.name, tmp_path)["state"] == "killed"
        kill_while_judging(("run", "--resume", folder.name, *options), completed=2, cwd=tmp_path)
        assert shown(folder.name, tmp_path)["state"] == "killed"
        done = agent("run", "--resume", folder.name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(server.completions) == len(answers)
    document = shown(folder.name, tmp_path)
    assert document["outcome"] == "verified"
    assert document["damage"] == []
    judged = [a["evaluation"]["status"] for entry in document["rounds"] for a in entry["attempts"]]
    assert judged == ["incorrect", "incorrect", "verified"]
    assert (folder / "best.py").is_file()


def test_ctrl_c_is_exit_130_and_resumable(tmp_path: Path) -> None:
    with endpoint.Endpoint([endpoint.stream(answer(4))]) as server:
        options = ("--base-url", server.base_url, "--executor", "emulator")
        process = judging(("run", "level1/group_norm", "--model", "m", *options), completed=1, cwd=tmp_path)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 130
        (folder,) = (tmp_path / "runs").iterdir()
        assert shown(folder.name, tmp_path)["outcome"] == "interrupted"
        done = agent("run", "--resume", folder.name, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(server.completions) == 1


def kill_while_judging(arguments: tuple[str, ...], *, completed: int, cwd: Path) -> None:
    process = judging(arguments, completed=completed, cwd=cwd)
    at_work = judges_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert at_work
    assert all_gone(at_work)


def judging(arguments: tuple[str, ...], *, completed: int, cwd: Path) -> subprocess.Popen[bytes]:
    """A run whose answer number `completed` is on disk and whose judge is at work."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=interruptible,
    )
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        events = [path.read_text() for path in cwd.glob("runs/*/events.jsonl")]
        if events and events[0].count('"kind":"completed"') == completed and judges_of(process.pid):
            return process
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the judge never began")


def judges_of(parent: int) -> list[int]:
    """Judge processes that this run has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"agent.harness.judge.evaluate" in (entry / "cmdline").read_bytes():
                status = (entry / "status").read_text()
                found += [int(entry.name)] if f"\nPPid:\t{parent}\n" in status else []
        except OSError:
            continue
    return found


def all_gone(processes: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return True
        time.sleep(0.1)
    return False
