"""What the judge's fast builds are asked for."""

from pathlib import Path

import pytest
from build_requests import DECLARED, TWICE, request

from agent import gpu_build
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.gpu_build import Gpu
from agent.harness.backends.slim_build import SlimBuilds
from agent.harness.task.job import Job
from agent.records import Candidate, Problem, TensorSpec, Trace

SPEC = TensorSpec(shape=(8,), dtype="float32")
TRACE = Trace(operations=(), inputs=(SPEC,), init_inputs=(), outputs=(SPEC,), state=(), flops=8, min_bytes=64)


@pytest.mark.parametrize("lines", [False, True])
def test_lines_are_kept_where_a_profiler_asks(
    lines: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def extension(toolchain: object, given: BuildRequest, *rest: object) -> Built:
        asked.append(given.extra_cuda_cflags)
        return Built(library=tmp_path / "library.so", seconds=1.0)

    monkeypatch.setattr(gpu_build, "prepare", lambda *given: object())
    monkeypatch.setattr(gpu_build, "extension", extension)
    problem = Problem(name="level1/mul", source="", trace=TRACE)
    job = Job(
        problem=problem, candidate=Candidate(problem=problem.name, source=""), executor="cuda",
        candidate_timeout_s=1, cache_dir=str(tmp_path), lines=lines,
    )  # fmt: skip
    builds = SlimBuilds(job, Gpu(capability="9.0"), lambda what: None)
    made = builds.built(request(DECLARED, TWICE, extra_cuda_cflags=["--use_fast_math"]))
    assert made is not None
    assert asked == [("--use_fast_math", "-lineinfo") if lines else ("--use_fast_math",)]
