"""Nobody uses a GPU beside whoever times on it, others share it, and nobody waits for one that has ended."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.build.build_request import BuildRequest
from agent.errors import EnvironmentFault
from agent.harness.backends.cuda import CudaBackend
from agent.harness.backends.gpu_lock import GpuLock, identity, yielding
from agent.harness.task import progress
from agent.harness.task.job import Job
from agent.records import Candidate, Problem, Trace

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)

HOLDER = """
import sys, time
from pathlib import Path
from agent.harness.backends.fifo_lock import FifoLock
lock = FifoLock(Path(sys.argv[1]))
lock.acquire(lambda ahead: None, 1.0)
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def another_evaluation(place: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has its turn and does not give it up."""
    command = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


def test_a_turn_that_does_not_come_is_no_fault_of_the_candidates(tmp_path: Path) -> None:
    said: list[str] = []
    with another_evaluation(tmp_path / "gpu.queue") as holder:
        gpu_lock = GpuLock(tmp_path / "gpu.queue", said.append, limit_s=0.1)
        words = rf"the GPU is in use: process {holder.pid} "
        with pytest.raises(EnvironmentFault, match=words), gpu_lock.exclusive():
            pytest.fail("both had it")
    assert said == ["waiting for the GPU: 1 before this one"]


def test_the_turn_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    said: list[str] = []
    with another_evaluation(tmp_path / "gpu.queue") as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with GpuLock(tmp_path / "gpu.queue", said.append, limit_s=0.1).exclusive():
            pass
    assert said == []


def test_others_have_their_turn_while_one_builds(tmp_path: Path) -> None:
    place = tmp_path / "gpus" / "gpu.queue"
    one, other = (GpuLock(place, lambda what: None, limit_s=0.1) for _ in range(2))
    with one.exclusive():
        with one.apart(), other.exclusive(), pytest.raises(EnvironmentFault), one.exclusive():
            pytest.fail("both had it")
        with pytest.raises(EnvironmentFault), other.exclusive():
            pytest.fail("both had it")
    with other.exclusive(), one.apart():
        pass


class Building:
    """In the place of the fast builds: notes whether another evaluation could use the GPU meanwhile."""

    offered, note = True, None

    def __init__(self, place: Path) -> None:
        self._place = place
        self.others_had_it = False

    def built(self, request: BuildRequest) -> None:
        with GpuLock(self._place, lambda what: None, limit_s=0.1).exclusive():
            self.others_had_it = True


def test_a_build_at_the_first_instance_is_no_part_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.harness.backends.cuda.launch_suppression.library", lambda cache: None)
    problem = Problem(name="level1/x", source="", trace=TRACE)
    candidate = Candidate(problem=problem.name, source="")
    job = Job(
        problem=problem,
        candidate=candidate,
        executor="cuda",
        candidate_timeout_s=1.0,
        cache_dir=str(tmp_path),
    )
    place = tmp_path / "gpu.queue"
    backend, building = CudaBackend(job, lambda what: None), Building(place)
    monkeypatch.setattr(backend, "_slim", building)
    backend.gpu_lock = GpuLock(place, lambda what: None, limit_s=0.1)
    with backend.gpu_lock.exclusive():
        asked = {"name": "x", "cpp_sources": "", "cuda_sources": "", "functions": []}
        assert backend.serve({"build": asked}) == {}
        with pytest.raises(EnvironmentFault), GpuLock(place, lambda what: None, limit_s=0.1).exclusive():
            pytest.fail("both had it")
    assert building.others_had_it


def test_shared_sections_run_side_by_side_and_keep_timing_away(tmp_path: Path) -> None:
    one, other, timing = (GpuLock(tmp_path, lambda what: None, limit_s=0.1) for _ in range(3))
    with one.shared(), other.shared(), pytest.raises(EnvironmentFault), timing.exclusive():
        pytest.fail("it timed beside others")
    with timing.exclusive(), timing.shared(), pytest.raises(EnvironmentFault), one.shared():
        pytest.fail("it ran beside whoever times")


def test_no_shared_section_begins_while_somebody_waits_to_time(tmp_path: Path) -> None:
    running, waiting = (GpuLock(tmp_path, lambda what: None, limit_s=30.0) for _ in range(2))
    told, timed = threading.Event(), threading.Event()
    late = GpuLock(tmp_path, lambda what: None, limit_s=0.1)

    def time_alone() -> None:
        with GpuLock(tmp_path, lambda what: told.set(), limit_s=30.0).exclusive():
            timed.set()

    thread = threading.Thread(target=time_alone)
    with running.shared():
        thread.start()
        assert told.wait(30.0)
        with pytest.raises(EnvironmentFault), late.shared():
            pytest.fail("it went ahead of whoever waits to time")
        assert not timed.is_set()
    thread.join()
    assert timed.is_set()
    with waiting.shared():
        pass


def test_a_second_look_comes_after_first_looks_that_began_soon_after(tmp_path: Path) -> None:
    now = time.monotonic_ns()
    assert now < yielding(now - 10**9)
    assert yielding(now - 3600 * 10**9) < now


def test_what_was_said_before_a_wait_is_said_again(tmp_path: Path) -> None:
    said: list[str] = []
    announce = progress.as_progress(said.append)
    announce("verifying")
    holder, waiter = GpuLock(tmp_path, lambda what: None), GpuLock(tmp_path, announce)
    began = threading.Event()

    def wait() -> None:
        began.set()
        with waiter.exclusive():
            pass

    with holder.shared():
        thread = threading.Thread(target=wait)
        thread.start()
        while said[-1] != "waiting for the GPU":
            assert began.wait(30.0)
            time.sleep(0.01)
    thread.join()
    assert said == ["verifying", "waiting for the GPU", "verifying"]


def test_longer_sections_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.harness.backends.gpu_lock.LOGGED_S", 0.0)
    lock = GpuLock(tmp_path, lambda what: None)
    with lock.shared():
        pass
    with lock.exclusive():
        pass
    rows = [json.loads(line) for line in (tmp_path / "holds.jsonl").read_text().splitlines()]
    assert [row["mode"] for row in rows] == ["shared", "exclusive"]


def test_without_a_gpu_nobody_waits() -> None:
    one, other = (GpuLock(None, lambda what: None) for _ in range(2))
    with one.exclusive(), other.exclusive(), one.apart():
        pass


@pytest.mark.parametrize(
    ("visible", "found"),
    [(None, "GPU-a"), ("", "GPU-a"), ("1", "GPU-b"), ("1,0", "GPU-b"), ("GPU-b", "GPU-b"),
     ("MIG-c", "MIG-c"), ("7", "unknown")],
)  # fmt: skip
def test_the_turn_is_that_of_the_gpu_which_cuda_shows_first(visible: str | None, found: str) -> None:
    assert identity(["GPU-a", "GPU-b"], visible) == found
