"""Builds that fail in `__init__` or forward on a GPU's backend, by the words of stock `load_inline`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from torch.utils import cpp_extension

from agent.harness.backends import launch_suppression
from agent.harness.backends.cuda import CudaBackend
from agent.harness.task.call_limits import CallLimits
from agent.harness.task.faults import Refused
from agent.harness.task.job import BUILD_LIMIT_S, Job
from agent.harness.trial.gpu_trial import GpuTrial
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.worker import load_inline_watch
from agent.records import Candidate, Problem, Status, Trace
from agent.sandbox import Child, TimedOut

EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
SOURCE = '''\
import torch
from torch.utils.cpp_extension import load_inline


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        cuda_source = """
__global__ void one(float* y) { extern __shared__ float tile[]; y[0] = tile[0]; }
__global__ void two(int* y) { extern __shared__ int tile[]; y[0] = tile[0]; }
extern "C" torch::Tensor twice(torch::Tensor x) { return x; }
"""
        self.ext = load_inline(name="t", cpp_sources="torch::Tensor twice(torch::Tensor x);",
                               cuda_sources=cuda_source, functions=["twice"])
'''
CUDA = SOURCE.split('"""')[1]
ASKED: dict[str, Any] = {
    "name": "t", "cpp_sources": "torch::Tensor twice(torch::Tensor x);", "cuda_sources": CUDA,
    "functions": ["twice"],
}  # fmt: skip
FAILED = "Error building extension 't'"
Serve = Callable[[dict[str, Any]], dict[str, Any]]


class Worker:
    """Stands for the candidate's process: builds as `steps` say, then answers."""

    log = ""

    def __init__(self, *steps: dict[str, Any], answer: dict[str, Any]) -> None:
        self.steps, self.answer = steps, answer
        self.served: list[dict[str, Any]] = []

    def ask(
        self,
        message: dict[str, Any],
        timeout_s: float,
        serve: Serve,
        granted: Callable[[], float] = lambda: 0.0,
    ) -> dict[str, Any]:
        self.served = [serve({"request": "build", "build": dict(step)}) for step in self.steps]
        if "times_out" in self.answer:
            raise TimedOut(f"no answer within {timeout_s:g} s")
        return self.answer


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> CudaBackend:
    monkeypatch.setattr(launch_suppression, "library", lambda cache: None)
    job = Job(
        problem=Problem(name="p", source="", trace=EMPTY), candidate=Candidate(problem="p", source=SOURCE),
        executor="cuda", candidate_timeout_s=60, cache_dir=str(tmp_path), build="load_inline",
    )  # fmt: skip
    return CudaBackend(job, said.append)


def talk(backend: CudaBackend, worker: Worker, folder: Path) -> WorkerClient:
    limits = CallLimits(backend._job)
    return WorkerClient(cast(Child, worker), backend._job, EMPTY, folder, backend, limits)


def instance(talking: WorkerClient) -> None:
    answer = talking.tell({"do": "instance"}, "creating ModelNew")
    talking.check(answer, "run", "creating ModelNew failed")


def raised(message: str, kind: str = "RuntimeError") -> dict[str, Any]:
    return {"error": {"type": kind, "message": message, "line": 13, "traceback": "", "kind": None}}


LOGS = {
    "missing-declaration": "/tmp/x/main.cpp:4:41: error: 'twice' was not declared in this scope\n",
    "extern-c": "ImportError: /tmp/x/t.so: undefined symbol: _Z5twiceN2at6TensorE",
    "shared-type-clash": (
        '/tmp/x/cuda.cu(6): error: declaration is incompatible with previous "tile" (declared at line 5)\n'
    ),
}


@pytest.mark.parametrize("kind", LOGS)
def test_a_build_that_fails_in_the_constructor_is_a_build_error(
    kind: str, backend: CudaBackend, tmp_path: Path
) -> None:
    log = f"{FAILED}:\n{LOGS[kind]}"
    failed = [ASKED | {"begins": True}, ASKED | {"seconds": 3.0, "log": log}]
    talking = talk(backend, Worker(*failed, answer=raised(log)), tmp_path)
    with pytest.raises(Refused) as caught:
        instance(talking)
    assert (caught.value.status, caught.value.stage) == (Status.BUILD_ERROR, "build")
    assert caught.value.findings[0].kind == kind
    built = backend.built()
    assert built is not None
    assert built.seconds == 3.0


def test_a_signature_for_a_name_is_refused_before_it_is_built(backend: CudaBackend, tmp_path: Path) -> None:
    asked = ASKED | {"functions": ["torch::Tensor twice(torch::Tensor x)"], "begins": True}
    worker = Worker(asked, answer=raised(f"{FAILED}: `functions` takes names"))
    with pytest.raises(Refused) as caught:
        instance(talk(backend, worker, tmp_path))
    assert (caught.value.status, caught.value.findings[0].kind) == (Status.BUILD_ERROR, "not-a-name")
    assert "error" in worker.served[0]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("load_inline() missing 1 required positional argument: 'cpp_sources'", "cpp-sources-missing"),
        ("load_inline() got an unexpected keyword argument 'nvcc_flags'", "load-inline-arguments"),
    ],
)
def test_a_call_that_torch_does_not_take_is_a_build_error(
    message: str, kind: str, backend: CudaBackend, tmp_path: Path
) -> None:
    with pytest.raises(Refused) as caught:
        instance(talk(backend, Worker(answer=raised(message, "TypeError")), tmp_path))
    assert (caught.value.status, caught.value.findings[0].kind) == (Status.BUILD_ERROR, kind)


def test_source_files_are_not_built(backend: CudaBackend, tmp_path: Path) -> None:
    words = f"{FAILED}: source files are not allowed here"
    with pytest.raises(Refused, match="pass the text of the sources to load_inline") as caught:
        instance(talk(backend, Worker(answer=raised(words)), tmp_path))
    assert (caught.value.status, caught.value.findings[0].kind) == (Status.BUILD_ERROR, "source-files")


def test_a_caught_failure_counts_where_the_extension_is_missed(backend: CudaBackend, tmp_path: Path) -> None:
    """The candidate goes on without the extension, until it is needed."""
    failed = ASKED | {"seconds": 3.0, "log": f"{FAILED}:\n{LOGS['missing-declaration']}"}
    instance(talk(backend, Worker(failed, answer={}), tmp_path))
    missed = raised("'NoneType' object has no attribute 'twice'", "AttributeError")
    with pytest.raises(Refused) as caught:
        instance(talk(backend, Worker(answer=missed), tmp_path))
    assert caught.value.findings[0].kind == "missing-declaration"


def test_a_caught_failure_counts_where_no_kernel_runs(backend: CudaBackend, tmp_path: Path) -> None:
    """The candidate goes on with torch's operators, and the profiler sees no kernel of its own."""
    failed = ASKED | {"seconds": 3.0, "log": f"{FAILED}:\n{LOGS['missing-declaration']}"}
    instance(talk(backend, Worker(failed, answer={}), tmp_path))
    trial = GpuTrial.__new__(GpuTrial)
    trial._job, trial._backend = backend._job, backend
    seen = {"kernels": [{"name": "at::native::tanh", "us": 1.0, "stream": 7, "operators": []}]}
    trial.candidate = talk(backend, Worker(answer=seen), tmp_path)
    with pytest.raises(Refused) as caught:
        trial.watch(lambda what: None)
    assert (caught.value.status, caught.value.findings[0].kind) == (Status.BUILD_ERROR, "missing-declaration")


def test_another_error_after_a_caught_failure_is_its_own(backend: CudaBackend, tmp_path: Path) -> None:
    failed = ASKED | {"seconds": 3.0, "log": f"{FAILED}:\n{LOGS['missing-declaration']}"}
    instance(talk(backend, Worker(failed, answer={}), tmp_path))
    with pytest.raises(Refused) as caught:
        instance(talk(backend, Worker(answer=raised("sizes differ")), tmp_path))
    assert caught.value.status is Status.RUNTIME_ERROR


def test_building_is_said_while_it_lasts(backend: CudaBackend, tmp_path: Path, said: list[str]) -> None:
    backend._progress("verifying, draw 1 of 13")
    built = [ASKED | {"begins": True}, ASKED | {"seconds": 3.0, "log": None}]
    instance(talk(backend, Worker(*built, answer={}), tmp_path))
    assert said == ["verifying, draw 1 of 13", "building", "verifying, draw 1 of 13"]


def test_a_build_does_not_count_as_time_of_the_call(
    backend: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    seen: list[float] = []

    class Slow(Worker):
        def ask(
            self, message: dict[str, Any], timeout_s: float, serve: Serve,
            granted: Callable[[], float] = lambda: 0.0,
        ) -> dict[str, Any]:  # fmt: skip
            serve({"request": "build", "build": ASKED | {"begins": True}})
            for seconds in (40.0, 10 * BUILD_LIMIT_S):
                now[0] += seconds
                seen.append(granted())
            raise TimedOut(f"no answer within {timeout_s:g} s")

    with pytest.raises(Refused, match="within that building an extension") as caught:
        instance(talk(backend, Slow(answer={}), tmp_path))
    assert caught.value.status is Status.TIMEOUT
    assert seen == [40.0, BUILD_LIMIT_S]


def test_text_made_at_run_time_is_held_against_the_screen(backend: CudaBackend, tmp_path: Path) -> None:
    asked = ASKED | {"cuda_sources": CUDA + 'void f() { system("true"); }\n', "begins": True}
    with pytest.raises(Refused) as caught:
        instance(talk(backend, Worker(asked, answer={}), tmp_path))
    assert (caught.value.status, caught.value.findings[0].kind) == (Status.REJECTED, "process-control")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the worker's own `load_inline` tells the judge; the stock one fails."""
    heard: list[dict[str, Any]] = []

    def stock(name: str, cpp_sources: Any, cuda_sources: Any = None, functions: Any = None) -> None:
        raise RuntimeError(f"{FAILED}: words of a compiler")

    def tell(request: dict[str, Any]) -> dict[str, Any]:
        heard.append(request)
        return {"error": "too many"} if request["name"] == "one too many" else {}

    monkeypatch.setattr(cpp_extension, "load_inline", stock)
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)
    load_inline_watch.record(tell)
    return heard


def test_the_judge_hears_of_a_build_before_and_after(told: list[dict[str, Any]]) -> None:
    with pytest.raises(RuntimeError, match="words of a compiler"):
        cpp_extension.load_inline(name="t", cpp_sources=["a"])  # type: ignore[no-untyped-call]
    begins, report = told
    assert begins == {"name": "t", "cpp_sources": ["a"], "begins": True}
    assert report["log"].endswith("words of a compiler")
    assert report["seconds"] >= 0


def test_what_the_judge_refuses_is_not_built(told: list[dict[str, Any]]) -> None:
    with pytest.raises(RuntimeError, match="Error building extension 'one too many': too many"):
        cpp_extension.load_inline(name="one too many", cpp_sources="a")  # type: ignore[no-untyped-call]
    assert len(told) == 1


def test_wrong_arguments_are_refused_in_the_words_of_torch(told: list[dict[str, Any]]) -> None:
    with pytest.raises(TypeError, match=r"stock\(\) missing 1 required positional argument: 'cpp_sources'"):
        cpp_extension.load_inline(name="t")  # type: ignore[no-untyped-call, call-arg]
    assert told == []


def test_load_takes_no_files(told: list[dict[str, Any]]) -> None:
    with pytest.raises(RuntimeError, match="source files are not allowed here"):
        cpp_extension.load(name="t", sources=["t.cu"])
