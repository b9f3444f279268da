"""A Ray cluster of several nodes on the loopback: what is killed is done again, and the report is the same.

The nodes are started with a key in their environment, as careless operators do, and with a home that
cannot be written to.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from doors.clusters import PLAN, Heard, asked, judged, stub
from e2e.commands import COMMAND, agent, environment
from interrupting import PATIENCE_S, interruptible

from agent import config
from agent.api.listening import Listener
from agent.api.service import Answer
from agent.doors.cluster.dispatch import Dispatch
from agent.doors.cluster.rays import Rays

pytestmark = pytest.mark.timeout(900)

CORPUS = Path(__file__).resolve().parents[1] / "integrity"
NODE: dict[str, Any] = {
    "num_cpus": 4, "object_store_memory": 80 * 2**20, "include_dashboard": False,
    "env_vars": {"OPENAI_API_KEY": "sk-of-the-operator", "AGENT_SERVICE_TOKEN": "a-token",
        "HOME": "/proc/nowhere", "AGENT_CACHE_DIR": str(config.load({}, offline=True).settings.cache_dir),
    },
}  # fmt: skip
"""Room for one judge."""


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Whether there is such a process that is more than its exit status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Nodes:
    """A cluster's nodes: the first is its head and stays."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={**NODE, "node_ip_address": "127.0.0.2"})
        self.address: str = self._cluster.address
        self.second = self._added()

    def _added(self) -> Any:
        """Ray gives a node 30 s to start, which a busy machine may need longer for: it is tried again."""
        for _ in range(4):
            with suppress(Exception):
                return self._cluster.add_node(**NODE, node_ip_address="127.0.0.3")
        return self._cluster.add_node(**NODE, node_ip_address="127.0.0.3")

    def replace_second(self) -> None:
        """Kills it, with all that runs on it, and starts another one."""
        self._cluster.remove_node(self.second, allow_graceful=False)
        self.second = self._added()

    def processes(self) -> list[int]:
        nodes = self._cluster.list_all_nodes()
        return [info.process.pid for node in nodes for kind in node.all_processes.values() for info in kind]

    def end(self) -> None:
        started = self.processes()
        self._cluster.shutdown()
        until(lambda: not any(map(alive, started)), "a process of the cluster outlived it")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        found = Nodes()
        yield found
        found.end()


class Asking:
    """Jobs on judges that only look at the text, each asked from a thread of its own."""

    def __init__(self, rays: Rays) -> None:
        self.heard = Heard()
        self.dispatch = Dispatch(rays, PLAN, self.heard)
        self.dispatch.open()
        self._pool = ThreadPoolExecutor(16)

    def ask(self, text: str) -> "Future[Answer]":
        return self._pool.submit(self.dispatch.judge, text, asked(text), Listener())

    def free(self) -> list[int]:
        """Free places of each machine."""
        return [one.free for one in self.dispatch._judges.values()]

    def ready(self, machines: int) -> bool:
        return self.free() == [1] * machines


def test_a_node_and_a_judge_are_killed_in_the_middle(nodes: Nodes, tmp_path: Path) -> None:
    asking = Asking(Rays(nodes.address, stub()))
    try:
        until(lambda: asking.ready(2), "two judges never got ready")
        names = asking.ask("environment").result(PATIENCE_S)
        known = json.loads(judged(names))
        assert "PATH" in known
        assert not [name for name in known if "OPENAI" in name or "TOKEN" in name or name.startswith("RAY")]
        held = [tmp_path / name for name in ("first", "second")]
        found = [asking.ask(f"hold:{file}") for file in held]
        until(lambda: all(file.exists() for file in held), "two jobs never were in the middle")
        behind = [asking.ask(f"candidate {number}") for number in range(20)]
        # Nobody is free: what comes behind waits here.
        assert asking.free() == [0, 0]
        processes = [int(file.read_text()) for file in held]
        nodes.replace_second()
        until(lambda: sum(map(alive, processes)) == 1, "a judge outlived its node")
        (other,) = filter(alive, processes)
        os.kill(other, signal.SIGKILL)
        assert [judged(one.result(PATIENCE_S)) for one in found] == [f"hold:{file}" for file in held]
        assert [judged(one.result(PATIENCE_S)) for one in behind] == [f"candidate {n}" for n in range(20)]
        until(lambda: asking.ready(2), "the new node never got a judge")
        assert any("is lost" in said for said in asking.heard.said)
    finally:
        asking.dispatch.close()


@pytest.fixture
def suite(tmp_path: Path) -> tuple[str, ...]:
    """Three small problems, with a right answer to two and a wrong one to another."""
    given = tmp_path / "given"
    given.mkdir()
    names = ("hardtanh_scale", "tanh_scale", "relu_square")
    right = (CORPUS / "programs" / "honest" / "built_at_first_call.py").read_text()
    for name in names:
        (given / f"{name}.py").write_text(right)
    addresses = [str(CORPUS / "problems" / f"{name}.py") for name in names]
    (tmp_path / "suite.toml").write_text(f"problems = {json.dumps(addresses)}\n")
    return ("bench", "suite.toml", "--candidates", "given", "--executor", "emulator", "--quick")


def reported(cwd: Path, bench: str) -> list[tuple[object, ...]]:
    """What a report says of each task, but for times and names."""
    done = agent("bench", "report", bench, "--format", "json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    kept = ("address", "sample", "ending", "reason", "attempts", "first", "statuses", "scope")
    return [tuple(one[name] for name in kept) for one in json.loads(done.stdout)["outcomes"]]


def children(process: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return found


def judges(nodes: Nodes) -> list[int]:
    """The processes that judge, on whatever node."""
    found, todo = [], nodes.processes()
    while todo:
        process = todo.pop()
        todo += children(process)
        with suppress(OSError):
            if b"agent.doors.cluster.judge" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def test_a_bench_whose_driver_was_killed_goes_on_to_the_same_report(
    nodes: Nodes, suite: tuple[str, ...], tmp_path: Path
) -> None:
    whole = agent(*suite, "--jobs", "1", "--json", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    (here,) = (path.name for path in (tmp_path / "runs").glob("bench-*"))
    process = subprocess.Popen(
        [*COMMAND, *suite, "--cluster", nodes.address], cwd=tmp_path, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=environment(OPENAI_API_KEY="sk-of-the-user"),
        preexec_fn=interruptible,
    )  # fmt: skip

    def verdicts() -> list[str]:
        (bench,) = (path for path in (tmp_path / "runs").glob("bench-*") if path.name != here)
        return [
            text.read_text()
            for text in bench.glob("runs/*/events.jsonl")
            if '"evaluated"' in text.read_text()
        ]

    until(lambda: len(list((tmp_path / "runs").glob("bench-*"))) == 2, "no bench began")
    until(lambda: len(verdicts()) >= 1 or process.poll() is not None, "nothing was ever judged")
    assert process.poll() is None
    working = judges(nodes)
    assert working
    for one in working:
        with suppress(PermissionError):
            assert b"sk-of" not in Path(f"/proc/{one}/environ").read_bytes()
    process.kill()
    process.wait()
    until(lambda: not any(map(alive, working)), "a judge outlived the bench")
    (there,) = (path.name for path in (tmp_path / "runs").glob("bench-*") if path.name != here)
    before = {path: path.read_text() for path in (tmp_path / "runs" / there).glob("runs/*/events.jsonl")}
    killed = threading.Thread(target=kill_a_judge, args=(nodes,))
    killed.start()
    done = agent("bench", "--resume", there, "--cluster", nodes.address, cwd=tmp_path)
    killed.join()
    assert done.returncode == 0, done.stderr
    assert reported(tmp_path, there) == reported(tmp_path, here)
    for path, text in before.items():
        # A worker may see that its driver is gone before it is ended, and close its run as failed: such a
        # run is done anew. A verdict is not.
        assert path.read_text().startswith(text.rpartition("\n")[0])
        assert path.read_text().count('"kind":"evaluated"') == 1, "nothing was judged twice"
    until(lambda: not judges(nodes), "a judge outlived the bench")


def kill_a_judge(nodes: Nodes) -> None:
    """As soon as there is one."""
    until(lambda: bool(judges(nodes)), "no judge ever began")
    with suppress(ProcessLookupError):
        os.kill(judges(nodes)[0], signal.SIGKILL)
