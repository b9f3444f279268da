"""What ncu is asked, and what is said where it gives nothing."""

from pathlib import Path

import pytest
from verdicts import verified

from agent.diagnosis.performance import performance_advice
from agent.errors import EnvironmentFault
from agent.harness.backends import selection
from agent.harness.confirmation import confirmation, counters
from agent.harness.task.job import Job
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, KernelTime, Operation, Problem, Profile, TensorSpec, Trace
from agent.sandbox import Box

SPEC = TensorSpec(shape=(1000, 1000), dtype="float32")
TRACE = Trace(
    operations=(
        Operation(
            op="mul", overload="aten.mul.Tensor", inputs=(SPEC,), outputs=(SPEC,), attributes={},
            flops=1_000_000, bytes=8_000_000,
        ),
    ),
    inputs=(SPEC,), init_inputs=(), outputs=(SPEC,), state=(), flops=1_000_000, min_bytes=8_000_000,
)  # fmt: skip
ROWS = """\
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","row_kernel(float *)","launch__waves_per_multiprocessor","","0.25"
"0","row_kernel(float *)","gpu__time_duration.sum","nsecond","9000"
"""


def profile() -> Profile:
    names = {
        "void (anonymous namespace)::scale<4, float>(float const*)": True,
        "row_kernel(float const*, float*, int)": True,
        "void at::native::fill_kernel(float)": False,
    }
    kernels = [KernelTime(name=name, launches=2, ms=0.1, own=own) for name, own in names.items()]
    return Profile(kernels=tuple(kernels), streams=1)


def job(tmp_path: Path) -> Job:
    problem = Problem(name="level1/mul", source="", trace=TRACE)
    return Job(
        problem=problem, candidate=Candidate(problem=problem.name, source=""), executor="cuda",
        candidate_timeout_s=1, cache_dir=str(tmp_path),
        shrunken=Shrunken(source="", sizes={}, trace=TRACE, full=True, fits=True, hard=()),
    )  # fmt: skip


def slow_verdict() -> Evaluation:
    """A verified candidate far from the roofline, with the recommendation that needs no counters."""
    evaluation = verified(1, 5.0).evaluation
    verdict = evaluation.model_copy(update={"profile": profile(), "findings": ()})
    assert verdict.measurement is not None
    assert verdict.build is not None
    advice = performance_advice.recommendation(verdict.measurement, TRACE, verdict.build.kernels, profile())
    assert advice is not None
    return verdict.model_copy(update={"findings": (advice,)})


def test_ncu_is_asked_for_the_candidates_own_kernels() -> None:
    assert counters.own_names(profile()) == ["scale", "row_kernel"]
    command = counters.asked(Path("/opt/ncu"), ["scale", "row_kernel"], ["a.sum", "b.pct"])
    assert command[0] == "/opt/ncu"
    assert command[command.index("--kernel-name") + 1] == "regex:^(scale|row_kernel)$"
    assert command[command.index("--metrics") + 1] == "a.sum,b.pct"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access", "to administrators"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.", "No kernels were profiled"),
        ("", "it printed nothing"),
    ],
)
def test_one_line_says_why_there_are_no_counters(log: str, words: str) -> None:
    found = counters.judged(log)
    assert found.launches == []
    assert words in (found.left_out or "")
    assert "\n" not in (found.left_out or "")


def test_metrics_that_a_gpu_does_not_have_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def log_of_calls(job: Job, at: Shrunken, prefix: list[str]) -> str:
        if "--metrics" not in prefix:
            return ""
        asked.append(prefix[prefix.index("--metrics") + 1])
        missing = "lts__t_sector_hit_rate.pct"
        return f"==ERROR== Failed to find metric {missing}" if missing in asked[-1] else ROWS

    monkeypatch.setattr("agent.harness.confirmation.counters.tool", lambda: Path("/opt/ncu"))
    monkeypatch.setattr("agent.harness.confirmation.counters.sanitizer.log_of_calls", log_of_calls)
    given = job(tmp_path)
    assert given.shrunken is not None
    found = counters.read(given, given.shrunken, profile(), lambda what: None)
    assert [launch.kernel for launch in found.launches] == ["row_kernel"]
    assert len(asked) == 2


def test_the_recommendation_is_that_of_the_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.harness.confirmation.counters.tool", lambda: Path("/opt/ncu"))
    monkeypatch.setattr(
        "agent.harness.confirmation.counters.sanitizer.log_of_calls", lambda job, at, prefix: ROWS
    )
    before = slow_verdict()
    after = confirmation.with_counters(job(tmp_path), before, lambda what: None)
    assert [finding.kind for finding in after.findings] == ["few-blocks"]
    assert "ncu, row_kernel" in (after.findings[0].evidence or "")
    assert after.scope.skipped == before.scope.skipped


def test_the_longest_kernel_is_sampled_with_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "\n__global__ void row_kernel(float* x) { x[threadIdx.x] += 1; }\n"
    page = (
        '"File Path","/build/candidate.py"\n"Function Name","row_kernel(float *)"\n'
        '"Line No","Source","Address","Source","# Samples","stall_long_sb"\n"2","","-","-","7","7"\n'
    )
    sampled: list[bool] = []

    def log_of_calls(job: Job, at: Shrunken, prefix: list[str]) -> str:
        if "source" not in prefix:
            return ROWS
        assert prefix[prefix.index("--kernel-name") + 1] == "regex:^row_kernel$"
        sampled.append(job.lines)
        return page

    monkeypatch.setattr("agent.harness.confirmation.counters.tool", lambda: Path("/opt/ncu"))
    monkeypatch.setattr("agent.harness.confirmation.counters.sanitizer.log_of_calls", log_of_calls)
    given = job(tmp_path)
    given = given.model_copy(update={"candidate": given.candidate.model_copy(update={"source": source})})
    after = confirmation.with_counters(given, slow_verdict(), lambda what: None)
    assert sampled == [True], "once, in a build that keeps the lines"
    assert "line 2, 100%, mostly for global memory" in (after.findings[0].evidence or "")


def test_a_profiler_that_fails_changes_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(job: Job, at: Shrunken, prefix: list[str]) -> str:
        raise EnvironmentFault("no room on the GPU")

    monkeypatch.setattr("agent.harness.confirmation.counters.tool", lambda: Path("/opt/ncu"))
    monkeypatch.setattr("agent.harness.confirmation.counters.sanitizer.log_of_calls", fails)
    before = slow_verdict()
    after = confirmation.with_counters(job(tmp_path), before, lambda what: None)
    assert after.findings == before.findings
    assert after.scope.skipped == ("ncu's counters: no room on the GPU",)


def test_a_tool_is_seen_with_what_it_starts(tmp_path: Path) -> None:
    ncu = tmp_path / "cuda" / "bin" / "ncu"
    real = tmp_path / "cuda" / "nsight-compute-2025.3"
    real.mkdir(parents=True)
    ncu.parent.mkdir()
    ncu.write_text("#!/bin/sh\n")
    box = Box(tmp_path / "folder", sees=(tmp_path / "libraries",))
    seen = selection.with_tool(box, (str(ncu), "--csv")).sees
    assert {tmp_path / "libraries", ncu.parent, real} <= set(seen)
    assert selection.with_tool(box, ()) == box
