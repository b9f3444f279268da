"""The conversation with a child, and its end, in a sandbox and without one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.boxes import ORIGIN, PREAMBLE, PROCESS, answer, child, eventually, running, server

from agent.errors import EnvironmentFault
from agent.sandbox import Box, Child, ChildFault, Gone, Limits, TimedOut, strongest


@pytest.fixture(params=["strongest", "process", "trusted"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Box | None:
    if request.param == "trusted":
        return None
    return Box(tmp_path, level=strongest() if request.param == "strongest" else PROCESS)


@pytest.fixture(params=["afresh", "handed out"], autouse=True)
def origin(request: pytest.FixtureRequest) -> Iterator[None]:
    token = ORIGIN.set(server() if request.param == "handed out" else None)
    yield
    ORIGIN.reset(token)


def started(code: str, box: Box | None) -> Child:
    if box is not None:
        return child(code, box)
    argv = [sys.executable, "-c", PREAMBLE + code]
    return Child(argv, env={"PATH": os.environ["PATH"]}, server=ORIGIN.get())


def test_conversation(box: Box | None) -> None:
    with started("for line in sys.stdin: say({'twice': json.loads(line)['n'] * 2})", box) as worker:
        assert worker.ask({"n": 4}, 20) == {"twice": 8}
        assert worker.ask({"n": 5}, 20) == {"twice": 10}


def test_the_child_may_ask_back(box: Box | None) -> None:
    code = "sys.stdin.readline(); say({'request': 'build'}); say(json.loads(sys.stdin.readline()))"
    with started(code, box) as worker:
        assert worker.ask({}, 20, lambda question: {"served": question["request"]}) == {"served": "build"}


def test_a_loop_is_stopped(box: Box | None) -> None:
    with started("while True: pass", box) as worker, pytest.raises(TimedOut, match="within 0.5 s"):
        worker.ask({}, 0.5)


def test_who_was_stopped_is_gone(box: Box | None) -> None:
    with started("while True: pass", box) as worker:
        with pytest.raises(TimedOut):
            worker.ask({}, 0.5)
        with pytest.raises(Gone, match="was ended by signal"):
            worker.ask({}, 0.5)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("sys.exit(7)", "exited with code 7"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import signal; os.kill(os.getpid(), signal.SIGPIPE)", "SIGPIPE"),
    ],
)
def test_a_death_is_named(box: Box | None, code: str, words: str) -> None:
    code = f"import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); {code}"
    with started(code, box) as worker, pytest.raises(Gone, match=words):
        worker.ask({}, 20)


def test_a_closed_pipe_is_no_answer(box: Box | None) -> None:
    code = "import time; os.close(answers); time.sleep(0.1); sys.exit(3)"
    with started(code, box) as worker, pytest.raises(Gone, match="code 3"):
        worker.ask({}, 20)


def test_garbage_is_a_fault(box: Box | None) -> None:
    code = "os.write(answers, b'not json\\n'); sys.stdin.read()"
    with started(code, box) as worker, pytest.raises(ChildFault, match="not a message"):
        worker.ask({}, 20)


def test_grandchildren_die_with_it(box: Box | None) -> None:
    marker = f"grandchild-{os.getpid()}-{box.level.name if box and box.level else 'trusted'}"
    code = f"""
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {marker!r}])
say({{}})
sys.stdin.read()
"""
    with started(code, box) as worker:
        worker.ask({}, 20)
        assert eventually(lambda: len(running(marker)) == 1)
    assert eventually(lambda: running(marker) == [])


def test_a_file_over_the_limit_is_refused_by_the_kernel(tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
say({"error": tried(lambda: open("big", "wb").write(b"x" * (2 << 20)))})
"""
    for name, level in (("boxed", strongest()), ("process", PROCESS)):
        folder = tmp_path / name
        folder.mkdir()
        seen = answer(code, Box(folder, level=level), Limits(file_bytes=1 << 20))
        assert seen == {"error": "File too large"}


def test_a_sandbox_that_cannot_be_entered_is_no_fault_of_the_child(tmp_path: Path) -> None:
    box = Box(tmp_path)
    missing = Child(["/no/such/program"], env={}, box=box)
    with (
        missing,
        pytest.raises(EnvironmentFault, match="sandbox could not be set up: sandbox: .*No such file"),
    ):
        missing.ask({}, 20)


@pytest.mark.parametrize("level", ["strongest()", "Level('process')"])
def test_no_child_outlives_a_killed_parent(level: str, tmp_path: Path) -> None:
    marker = f"orphan-{os.getpid()}-{level[0]}"
    code = f"""
import sys, time
from pathlib import Path
from agent.sandbox import Box, Child, Level, strongest
code = "import os, time; os.fork() or os.setsid(); time.sleep(60)"
argv = [sys.executable, "-c", code, {marker!r}]
box = Box(Path({str(tmp_path)!r}), python=True, level={level})
child = Child(argv, env={{"PATH": "/usr/bin:/bin"}}, box=box)
print("started", flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip() == "started"
    found = eventually(lambda: len(running(marker)) == 2)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert found
    assert eventually(lambda: running(marker) == [])
