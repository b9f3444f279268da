"""Two evaluations never use one GPU at once, and nobody waits for one that has ended."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.build.build_request import BuildRequest
from agent.errors import EnvironmentFault
from agent.harness.backends.cuda import CudaBackend
from agent.harness.backends.gpu_lock import GpuLock, identity
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
        with pytest.raises(EnvironmentFault, match=words), gpu_lock.held():
            pytest.fail("both had it")
    assert said == ["waiting for the GPU: 1 before this one"]


def test_the_turn_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    said: list[str] = []
    with another_evaluation(tmp_path / "gpu.queue") as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with GpuLock(tmp_path / "gpu.queue", said.append, limit_s=0.1).held():
            pass
    assert said == []


def test_others_have_their_turn_while_one_builds(tmp_path: Path) -> None:
    place = tmp_path / "gpus" / "gpu.queue"
    one, other = (GpuLock(place, lambda what: None, limit_s=0.1) for _ in range(2))
    with one.held():
        with one.apart(), other.held(), pytest.raises(EnvironmentFault), one.held():
            pytest.fail("both had it")
        with pytest.raises(EnvironmentFault), other.held():
            pytest.fail("both had it")
    with other.held(), one.apart():
        pass


class Building:
    """In the place of the fast builds: notes whether another evaluation could use the GPU meanwhile."""

    offered, note = True, None

    def __init__(self, place: Path) -> None:
        self._place = place
        self.others_had_it = False

    def built(self, request: BuildRequest) -> None:
        with GpuLock(self._place, lambda what: None, limit_s=0.1).held():
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
    with backend.gpu_lock.held():
        asked = {"name": "x", "cpp_sources": "", "cuda_sources": "", "functions": []}
        assert backend.serve({"build": asked}) == {}
        with pytest.raises(EnvironmentFault), GpuLock(place, lambda what: None, limit_s=0.1).held():
            pytest.fail("both had it")
    assert building.others_had_it


def test_without_a_gpu_nobody_waits() -> None:
    one, other = (GpuLock(None, lambda what: None) for _ in range(2))
    with one.held(), other.held(), one.apart():
        pass


@pytest.mark.parametrize(
    ("visible", "found"),
    [(None, "GPU-a"), ("", "GPU-a"), ("1", "GPU-b"), ("1,0", "GPU-b"), ("GPU-b", "GPU-b"),
     ("MIG-c", "MIG-c"), ("7", "unknown")],
)  # fmt: skip
def test_the_turn_is_that_of_the_gpu_which_cuda_shows_first(visible: str | None, found: str) -> None:
    assert identity(["GPU-a", "GPU-b"], visible) == found
