"""Problems that no GPU of this size can hold are refused before anything is asked of a model."""

import shutil
import subprocess
from pathlib import Path

import pytest
from second_looks import TRACE

from agent.errors import EnvironmentFault
from agent.executors import JudgeOptions, LocalExecutor, warm
from agent.harness.backends import gpu_memory
from agent.records import Problem, TensorSpec

GB = 10**9


def problem(*shapes: int, dtype: str = "float32") -> Problem:
    """One input, one output and parameters of so many elements."""
    given, out, *state = (TensorSpec(shape=(size,), dtype=dtype) for size in shapes)
    trace = TRACE.model_copy(update={"inputs": (given, 3), "outputs": (out,), "state": tuple(state)})
    return Problem(name="level1/large", source="class Model: ...\n", trace=trace)


def require(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, total: int | None, asked: Problem) -> None:
    monkeypatch.setattr(warm, "begin", lambda *_: None)
    monkeypatch.setattr(gpu_memory, "total_bytes", lambda: total)
    options = JudgeOptions(candidate_timeout_s=1.0)
    LocalExecutor("cuda", cache_dir=tmp_path, options=options).require_memory(asked)


def test_what_cannot_fit_is_said_with_both_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"level1/large: .* 12\.0 GB .* has 11\.0 GB; choose smaller"):
        require(monkeypatch, tmp_path, 11 * GB, problem(GB // 2, GB // 4, GB // 4))


@pytest.mark.parametrize("total", [12 * GB, None])
def test_what_fits_or_cannot_be_told_is_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, total: int | None
) -> None:
    require(monkeypatch, tmp_path, total, problem(GB // 2, GB // 4, GB // 4))


def test_integers_have_no_copies_in_float64(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require(monkeypatch, tmp_path, 8 * GB, problem(GB // 2, GB // 2, dtype="int64"))


@pytest.mark.parametrize(
    ("answer", "expected"), [("143771\n81559\n", 143771 << 20), ("[N/A]\n", None), ("", None)]
)
def test_the_memory_is_that_of_the_first_gpu(
    monkeypatch: pytest.MonkeyPatch, answer: str, expected: int | None
) -> None:
    done = subprocess.CompletedProcess([], 0, answer, "")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *given, **options: done)
    assert gpu_memory.total_bytes.__wrapped__() == expected
