"""Processes that a server forks: they share its imports, and nothing of one another's."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox.boxes import PREAMBLE, PYTHON, child, eventually, server

from agent import config
from agent.errors import EnvironmentFault
from agent.sandbox import Box, Child, ProcessServer

LEAVES = """
import ctypes, json, os, signal, threading, time
here = {}
json.loaded_by = "another"
json.dumps.__defaults__
os.environ["LEFT"] = "behind"
sys.modules["left_behind"] = json
os.umask(0o777)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
buffer = ctypes.create_string_buffer(b"left behind, in memory", 64)
# The value of a small integer, in the interpreter's own memory.
ctypes.c_byte.from_address(id(200) + 24).value = 77
for place in ("/tmp/left", "/dev/shm/left", "left"):
    try:
        open(place, "w").write("behind")
    except OSError:
        pass
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
say({"address": ctypes.addressof(buffer)})
sys.stdin.read()
"""
FINDS = """
import ctypes, json, os, signal
address = json.loads(sys.stdin.readline())["address"]
mapped = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in open("/proc/self/maps")]
there = any(begin <= address < end for begin, end in mapped)
say({
    "module": hasattr(json, "loaded_by") or "left_behind" in sys.modules,
    "variable": os.environ.get("LEFT"),
    "umask": os.umask(0o022),
    "SIGTERM": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
    "memory": ctypes.string_at(address, 22).decode("latin-1") if there else "",
    "number": int(str(199 + 1)),
    "files": [place for place in ("/tmp/left", "/dev/shm/left", "left") if os.path.exists(place)],
    "threads": len(os.listdir("/proc/self/task")),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "descriptors": len(os.listdir("/proc/self/fd")),
})
"""


@pytest.fixture
def one_server() -> Iterator[ProcessServer]:
    made = ProcessServer.started((), config.candidate_environment(), isolated=True)
    yield made
    made.end()


def test_nothing_that_one_leaves_reaches_the_next(tmp_path: Path) -> None:
    """Not while it lives, and not when it has ended."""
    boxes = [Box(tmp_path / name / "candidate") for name in ("first", "second", "third")]
    for box in boxes:
        box.folder.mkdir(parents=True)
    with child(LEAVES, boxes[0], handed_out_by=server()) as first:
        left = first.ask({}, 30)
        with child(FINDS, boxes[1], handed_out_by=server()) as second:
            beside = second.ask(left, 30)
    with child(FINDS, boxes[2], handed_out_by=server()) as third:
        after = third.ask(left, 30)
    for found in (beside, after):
        assert "behind" not in str(found.pop("memory"))
        # Its standard streams, the answering pipe, and the listing itself.
        assert found.pop("descriptors") == 5
        assert found == {
            "module": False, "variable": None, "umask": 0o022, "SIGTERM": True, "number": 200, "files": [],
            "threads": 1, "processes": [1, 2],
        }  # fmt: skip


def test_random_numbers_of_two_processes_differ(tmp_path: Path) -> None:
    code = "import random; input(); say({'drawn': random.random()})"
    drawn = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with child(code, Box(tmp_path / name), handed_out_by=server()) as worker:
            drawn.append(worker.ask({}, 30)["drawn"])
    assert drawn[0] != drawn[1]


def test_a_server_that_has_ended_is_no_fault_of_a_child(one_server: ProcessServer, tmp_path: Path) -> None:
    with child("sys.stdin.readline(); say({}); sys.stdin.read()", Box(tmp_path), None, one_server) as worker:
        assert worker.ask({}, 30) == {}
        assert one_server._owned is not None
        one_server._owned.kill()
        with pytest.raises(EnvironmentFault, match="server of processes"):
            worker.ask({}, 30)
        with pytest.raises(EnvironmentFault, match="server of processes"):
            child("say({})", Box(tmp_path), None, one_server)


def test_a_process_with_threads_or_shared_memory_is_not_forked(tmp_path: Path) -> None:
    for name, body, words in (
        ("threads", "import threading\nthreading.Timer(9, print).start()", "have started 1 threads"),
        ("shared", "import mmap\nkept = mmap.mmap(-1, 4096)", "memory that is shared"),
    ):  # fmt: skip
        (tmp_path / f"{name}_module.py").write_text(body)
        environment = config.candidate_environment() | {"PYTHONPATH": str(tmp_path)}
        made = ProcessServer.started((f"{name}_module",), environment, isolated=False)
        with pytest.raises(EnvironmentFault, match=words):
            made.wait()
        made.end()


def test_an_import_that_fails_is_told(tmp_path: Path) -> None:
    made = ProcessServer.started(("no_such_module",), config.candidate_environment(), isolated=True)
    with pytest.raises(EnvironmentFault, match="it has ended") as raised:
        made.wait()
    made.end()
    assert "No module named 'no_such_module'" in raised.value.details


def test_another_process_may_ask_for_processes_and_they_end_with_it(
    one_server: ProcessServer, tmp_path: Path
) -> None:
    """A judge has its oracle and its candidate from the servers of the agent that started it."""
    marker = tmp_path / "running"
    inside = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"""
import sys, time
from pathlib import Path
from agent.sandbox import Child, ProcessServer
server = ProcessServer.inherited(int(sys.argv[1]))
Child([sys.executable, "-c", {inside!r}], env={{}}, server=server)
time.sleep(60)
"""
    with one_server.client() as link:
        asking = subprocess.Popen([sys.executable, "-c", code, str(link.fileno())], pass_fds=(link.fileno(),))
    assert eventually(lambda: marker.exists() and marker.read_text() != "")
    pid = int(marker.read_text())
    assert Path(f"/proc/{pid}").exists()
    asking.send_signal(signal.SIGKILL)
    asking.wait()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_what_a_server_handed_out_ends_with_it(one_server: ProcessServer, tmp_path: Path) -> None:
    folder = tmp_path / "candidate"
    folder.mkdir()
    code = "say({'pid': os.getpid()}); import time; time.sleep(60)"
    argv = [PYTHON, "-c", PREAMBLE + code]
    trusted = Child(argv, env={}, server=one_server)
    with trusted, child(code, Box(folder), None, one_server) as boxed:
        pid = trusted.ask({}, 30)["pid"]
        boxed.ask({}, 30)
        owner = folder.stat().st_uid
        one_server.end()
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())
        assert eventually(lambda: _processes_of(owner) == [])


def _processes_of(owner: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found += [entry.name] if entry.name.isdigit() and entry.stat().st_uid == owner else []
        except OSError:
            continue
    return found
