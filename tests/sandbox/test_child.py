"""A hostile child is contained, named, and gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sandbox import Child, ChildFault, Gone, Isolation, Limits, OutputFlood, TimedOut, strongest

PREAMBLE = """
import json, os, sys
answers = int(sys.argv[-1])
def say(message):
    os.write(answers, json.dumps(message).encode() + b"\\n")
"""

LEVELS = sorted({"process", strongest()})


def child(code: str, isolation: str = "process", limits: Limits | None = None) -> Child:
    level: Isolation = "namespaces" if isolation == "namespaces" else "process"
    argv = [sys.executable, "-c", PREAMBLE + code]
    return Child(argv, cwd=Path("/"), env={"PATH": os.environ["PATH"]}, isolation=level, limits=limits)


@pytest.mark.parametrize("isolation", LEVELS)
def test_conversation(isolation: str) -> None:
    code = "for line in sys.stdin: say({'twice': json.loads(line)['n'] * 2})"
    with child(code, isolation) as worker:
        assert worker.ask({"n": 4}, 20) == {"twice": 8}
        assert worker.ask({"n": 5}, 20) == {"twice": 10}


def test_the_child_may_ask_back() -> None:
    code = "sys.stdin.readline(); say({'request': 'build'}); say(json.loads(sys.stdin.readline()))"
    with child(code) as worker:
        assert worker.ask({}, 20, lambda question: {"served": question["request"]}) == {"served": "build"}


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_loop_is_stopped(isolation: str) -> None:
    with child("while True: pass", isolation) as worker, pytest.raises(TimedOut, match="within 0.5 s"):
        worker.ask({}, 0.5)


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(0)", "exited with code 0"),
        ("sys.exit(7)", "exited with code 7"),
        ("os.abort()", "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_a_death_is_named(isolation: str, code: str, words: str) -> None:
    with child(code, isolation) as worker, pytest.raises(Gone, match=words):
        worker.ask({}, 20)


def test_a_flood_of_output_is_stopped_and_not_kept() -> None:
    code = "while True: sys.stdout.write('x' * 65536)"
    with child(code, limits=Limits(output_bytes=1 << 20)) as worker:
        with pytest.raises(OutputFlood, match="more than 1 MB"):
            worker.ask({}, 30)
        assert len(worker.log) <= 64 << 10


def test_garbage_is_a_fault() -> None:
    code = "os.write(answers, b'not json\\n'); sys.stdin.read()"
    with child(code) as worker, pytest.raises(ChildFault, match="not a message"):
        worker.ask({}, 20)


def test_a_file_over_the_limit_is_refused_by_the_kernel(tmp_path: Path) -> None:
    code = f"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    open({str(tmp_path / "big")!r}, "wb").write(b"x" * (2 << 20))
except OSError as error:
    say({{"error": error.strerror}})
"""
    with child(code, limits=Limits(file_bytes=1 << 20)) as worker:
        assert worker.ask({}, 20) == {"error": "File too large"}


@pytest.mark.parametrize("isolation", LEVELS)
def test_grandchildren_die_with_it(isolation: str) -> None:
    marker = f"grandchild-{os.getpid()}-{isolation}"
    code = f"""
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {marker!r}])
say({{}})
sys.stdin.read()
"""
    with child(code, isolation) as worker:
        worker.ask({}, 20)
        assert eventually(lambda: running(marker))
    assert eventually(lambda: not running(marker))


def test_a_daemonised_grandchild_dies_in_a_pid_namespace() -> None:
    if strongest() != "namespaces":
        pytest.skip("this machine gives no pid namespaces to an ordinary process")
    marker = f"daemon-{os.getpid()}"
    code = f"""
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", {marker!r}], start_new_session=True)
say({{}})
sys.stdin.read()
"""
    with child(code, "namespaces") as worker:
        worker.ask({}, 20)
        assert eventually(lambda: running(marker))
    assert eventually(lambda: not running(marker))


def test_namespaces_hide_the_network_and_other_processes() -> None:
    if strongest() != "namespaces":
        pytest.skip("this machine gives no namespaces to an ordinary process")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), timeout=2)
    reached = True
except OSError:
    reached = False
say({{"reached": reached, "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit())}})
"""
        with child(code, "namespaces") as worker:
            answer = worker.ask({}, 20)
    assert answer["reached"] is False
    assert os.getpid() not in answer["processes"] or max(answer["processes"]) < 100


def test_no_child_outlives_a_killed_parent() -> None:
    marker = f"orphan-{os.getpid()}"
    inner = f"import time; time.sleep(60) # {marker}"
    code = f"""
import sys
from pathlib import Path
from agent.sandbox import Child, strongest
argv = [sys.executable, "-c", {inner!r}]
child = Child(argv, cwd=Path("/"), env={{"PATH": "/usr/bin:/bin"}}, isolation=strongest())
print("started", flush=True)
import time; time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip() == "started"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not running(f"sleep(60) # {marker}"))


def running(marker: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes().split(b"\0")[-2]:
                return True
        except (OSError, IndexError):
            continue
    return False


def eventually(holds: Callable[[], bool]) -> bool:
    """A process shows its command line a moment after it was started, and is gone a moment after its end."""
    for _ in range(100):
        if holds():
            return True
        time.sleep(0.05)
    return False
