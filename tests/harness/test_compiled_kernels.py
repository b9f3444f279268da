"""What torch.compile launches is found out once for each problem and GPU."""

from pathlib import Path
from typing import Any

import pytest
from second_looks import PROBLEM

from agent.harness.task.job import Job
from agent.harness.timing.stats import Times
from agent.harness.trial.gpu_trial import GpuTrial
from agent.records import Candidate, Environment

LAUNCHED = [
    {"name": "triton_red_fused_0", "us": 40.0, "stream": 7},
    {"name": "triton_per_fused_1", "us": 60.0, "stream": 7},
    {"name": "triton_red_fused_0", "us": 42.0, "stream": 7},
]


class Oracle:
    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.answer = answer or {"kernels": LAUNCHED}
        self.asked: list[dict[str, Any]] = []

    def attempt(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        self.asked.append(command)
        return self.answer


def trial(oracle: Oracle, cache: Path, gpu: str, monkeypatch: pytest.MonkeyPatch) -> GpuTrial:
    made = GpuTrial.__new__(GpuTrial)
    candidate = Candidate(problem=PROBLEM.name, source="")
    job = Job(
        problem=PROBLEM, candidate=candidate, executor="cuda", candidate_timeout_s=1, cache_dir=str(cache)
    )
    monkeypatch.setattr(GpuTrial, "environment", lambda self: Environment(python="3", gpu=gpu))
    vars(made).update(_job=job, oracle=oracle)
    return made


def test_a_gpu_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle()
    times = Times([], {}, {}, rows={"candidate": (5, 10), "eager": (5, 10), "compile": (5, 10)})
    for gpu in ("H200", "H200", "H100"):
        found = trial(oracle, tmp_path, gpu, monkeypatch).compiled(times)
        assert [(kernel.name, kernel.launches, kernel.own) for kernel in found] == [
            ("triton_red_fused_0", 2, False), ("triton_per_fused_1", 1, False),
        ]  # fmt: skip
        assert found[0].ms == pytest.approx(0.082)
    assert len(oracle.asked) == 2


def test_without_the_baseline_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle()
    times = Times([], {}, {}, rows={"candidate": (5, 10), "eager": (5, 10)})
    assert trial(oracle, tmp_path, "H200", monkeypatch).compiled(times) == ()
    assert oracle.asked == []


@pytest.mark.parametrize("answer", [{"error": "CUPTI_ERROR_NOT_INITIALIZED"}, {"kernels": []}])
def test_what_the_profiler_does_not_tell_is_asked_again(
    answer: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Times([], {}, {}, rows={"candidate": (5, 10), "compile": (5, 10)})
    for oracle in (Oracle(answer), Oracle(answer)):
        assert trial(oracle, tmp_path, "H200", monkeypatch).compiled(times) == ()
        assert len(oracle.asked) == 1
    assert len(trial(Oracle(), tmp_path, "H200", monkeypatch).compiled(times)) == 2
