"""The clock, the oracle and two workers together, on memory and a time of the CPU in the place of a GPU's."""

import importlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from harness.cpu_segment import CpuSegment

from agent.harness.messages import commands, oracle_commands
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.oracle import baselines, batched_calls, transport
from agent.harness.oracle.server import Oracle
from agent.harness.oracle.transport import SharedMemory
from agent.harness.task.faults import Refused
from agent.harness.timing import benchmark, stats
from agent.harness.timing.processes import TimedProcesses
from agent.harness.worker import shared_memory, worker_commands
from agent.harness.worker.timing import FLUSHES, Sample
from agent.sandbox import Child, messages

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(8, 50)]


def get_init_inputs():
    return []
"""
Forward = Callable[[torch.Tensor], torch.Tensor]


class Timer:
    """As `agent.harness.worker.timing.Timer`."""

    def flush(self, times: int = 1) -> None:
        pass

    def timed(self, call: Callable[[], Any], flushes: int = FLUSHES) -> tuple[Sample, Any]:
        started = time.perf_counter()
        result = call()
        ms = 1000 * (time.perf_counter() - started)
        return Sample(ms, ms, False), result


class InJson:
    """A worker or the oracle, in the place of its process."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def timed(self, command: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(json.dumps(self._process.answer(json.dumps(command))))
        if "devices" in answer:
            answer["devices"] = ["cuda" for _ in answer["devices"]]
        return answer

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return self.timed(command)


class Together:
    """The candidate's worker, one that does nothing, and the oracle, spoken to in JSON."""

    def __init__(self, worker: Any, stack: ExitStack, folder: Path) -> None:
        pairs = [[stack.enter_context(end) for end in socket.socketpair()] for _ in range(2)]
        (folder / "reference.py").write_text(REFERENCE)
        shared = SharedMemory([mine.detach() for mine, _ in pairs])
        for end in shared._workers:
            stack.enter_context(end)
        self.oracle = Oracle(folder / "reference.py", folder, "cpu", shared)
        self.oracle.handle(oracle_commands.Parameters(1, "set0"))
        drawn = self.oracle.handle(oracle_commands.Draw(2, "draw1"))
        self.workers = [self._worker(worker, theirs.detach(), drawn, stack) for _, theirs in pairs]

    def _worker(self, module: Any, descriptor: int, drawn: dict[str, Any], stack: ExitStack) -> Any:
        """One that has been called, as the trial leaves it."""
        made = module.Worker.__new__(module.Worker)
        made._transport = module.transport.SharedMemory(descriptor)
        stack.enter_context(made._transport._oracle)
        made._timer, made._kept = Timer(), []
        made._inputs = made._transport.inputs(drawn["inputs"], False)
        outputs = torch.zeros(8, 50)
        made._model = lambda x: outputs
        command = messages.read(commands.call(drawn, "out", send_back="after"), worker_commands.Command)
        made._transport.hand_in(outputs, made._inputs, {}, [], command)
        return made

    def timed(self, forward: Forward) -> stats.Times:
        candidate, nothing = self.workers
        candidate._model = forward
        oracle = OracleClient(cast(Child, InJson(self.oracle)), "a problem")
        processes = TimedProcesses(InJson(candidate), InJson(nothing), oracle)
        return benchmark.timed(processes, benchmark.prepared(processes, compiled=False))


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Together]:
    for module in (shared_memory, messages):
        monkeypatch.syspath_prepend(str(Path(str(module.__file__)).parent))
    worker = importlib.import_module("worker")
    for module in (batched_calls, transport, worker.transport.shared_memory):
        monkeypatch.setattr(module, "Segment", CpuSegment)
    monkeypatch.setattr(baselines, "Timer", Timer)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    for name, value in {"ROUNDS": 12, "SLOPE_MS": 0.5, "LAUNCH_BOUND_MS": 0.0, "UNSTABLE": 9.0}.items():
        monkeypatch.setattr(benchmark, name, value)
    with ExitStack() as stack:
        yield Together(worker, stack, tmp_path)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)


def test_an_honest_candidate_is_timed(together: Together) -> None:
    times = together.timed(softmax)
    assert len(times.rounds) == 12
    assert set(times.slopes) == {"candidate", "eager"}
    assert times.fresh is not None
    command = oracle_commands.Alone(
        {"eager": times.rows["eager"]}, {"eager": stats.believed_from(times, "eager")}
    )
    alone = together.oracle.handle(command)["ms"]
    found = stats.measurement(times, "a GPU", None, alone)
    assert found.baseline == "eager"
    assert not together.oracle.handle(oracle_commands.Glance())["doubtful"]


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_where_the_profiler_tells_nothing_a_baseline_has_no_kernels(together: Together) -> None:
    together.timed(softmax)
    assert together.oracle.handle(oracle_commands.Launches("eager")) == {"kernels": []}


def test_what_was_right_while_it_was_checked_has_to_be_right_while_it_is_timed(together: Together) -> None:
    calls = 0

    def forward(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return softmax(x) if calls < 8 else torch.zeros_like(x)

    with pytest.raises(Refused, match="In a timed call"):
        together.timed(forward)


def test_less_precision_in_timed_calls_is_found(together: Together) -> None:
    with pytest.raises(Refused, match="In a timed call"):
        together.timed(lambda x: softmax(x).half().float())


def test_a_result_that_is_kept_for_an_address_is_found(together: Together) -> None:
    kept: dict[int, torch.Tensor] = {}

    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = softmax(x)
        return kept[x.data_ptr()].clone()

    with pytest.raises(Refused, match="In a timed call"):
        together.timed(forward)


def test_calls_in_a_row_are_no_copies_of_the_first(together: Together) -> None:
    last = [torch.zeros(8, 50)]

    def forward(x: torch.Tensor) -> torch.Tensor:
        # Inputs of a row lie elsewhere than those of single calls.
        if x.data_ptr() == together.workers[0]._inputs[0].data_ptr() or float(last[0].sum()) == 0:
            last[0] = softmax(x)
        return last[0].clone()

    with pytest.raises(Refused, match="In a timed call"):
        together.timed(forward)
