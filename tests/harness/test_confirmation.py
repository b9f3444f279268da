"""What the emulator's verdict means for a candidate that a GPU has verified."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Literal, cast

import pytest
from verdicts import refused, verified

from agent.harness.backends.backend import Backend
from agent.harness.confirmation import confirmation, sanitizer
from agent.harness.judge import evaluate
from agent.harness.task.job import Announce, Job
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, Finding, Problem, Scope, Status, Trace

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)


def judged(status: Status, kind: str) -> Evaluation:
    return refused(1, Finding(kind=kind, message="Something is wrong."), status=status).evaluation


@pytest.mark.parametrize("kind", confirmation.NEVER)
def test_what_no_kernel_may_do_refuses(kind: str) -> None:
    look = confirmation.by_emulator(judged(Status.RUNTIME_ERROR, kind))
    assert look.status is Status.RUNTIME_ERROR
    assert look.findings[0].kind == kind


def test_what_only_goes_wrong_at_small_sizes_is_a_warning() -> None:
    look = confirmation.by_emulator(judged(Status.INCORRECT, "wrong-values"))
    assert look.status is None
    assert [finding.severity for finding in look.findings] == ["warning"]
    assert "At smaller sizes, on the emulator: Something is wrong." in look.findings[0].message
    assert len(look.skipped) == 1


def test_what_the_emulator_does_not_run_is_said_and_nothing_else() -> None:
    look = confirmation.by_emulator(judged(Status.UNSUPPORTED, "unsupported-construct"))
    assert (look.status, look.findings, len(look.skipped)) == (None, (), 1)
    assert confirmation.by_emulator(verified(1).evaluation) == (None, (), ())


def looked(
    monkeypatch: pytest.MonkeyPatch, seen: Evaluation, *reports: Finding, skipped: tuple[str, ...] = ()
) -> Evaluation:
    """The cheap looks, with what compute-sanitizer reports."""
    asked: list[Job] = []

    def check(job: Job, at: Shrunken, announce: Announce) -> tuple[list[Finding], tuple[str, ...]]:
        asked.append(job)
        return list(reports), skipped

    monkeypatch.setattr(sanitizer, "check", check)
    sizes = Shrunken(source="", sizes={}, trace=TRACE, full=True, fits=True, hard=())
    job = Job(
        problem=Problem(name="p", source="", trace=TRACE), candidate=Candidate(problem="p", source=""),
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".", shrunken=sizes, confirms="cheap",
    )  # fmt: skip
    scope = Scope(executor="cuda", skipped=("before",))
    found = confirmation.by_small_sizes(job, scope, seen, lambda what: None)
    assert len(asked) == (0 if confirmation.by_emulator(seen).status else 1), "the cheapest comes first"
    return found


def test_the_sanitizer_is_not_asked_of_what_the_emulator_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(Status.RUNTIME_ERROR, confirmation.NEVER[0])
    found = looked(monkeypatch, seen)
    assert (found.status, found.findings) == (Status.RUNTIME_ERROR, seen.findings)
    assert not confirmation.admits(found)


def test_what_the_sanitizer_reports_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Finding(kind=sanitizer.OUT_OF_BOUNDS, message="Invalid write.")
    found = looked(monkeypatch, verified(1, executor="emulator").evaluation, report)
    assert (found.status, found.findings) == (Status.RUNTIME_ERROR, (report,))
    assert not confirmation.admits(found)


def test_what_nothing_speaks_against_is_left_to_the_stock_build(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(Status.INCORRECT, "wrong-values")
    found = looked(monkeypatch, seen, skipped=("compute-sanitizer: not installed here",))
    assert confirmation.admits(found)
    assert found.status is not Status.VERIFIED, "small sizes verify nothing that a GPU judges at its own"
    stock = verified(1, 0.5).evaluation
    whole = confirmation.joined(found, stock)
    assert [finding.kind for finding in whole.findings] == ["wrong-values"]
    assert whole.scope.skipped == found.scope.skipped
    assert whole.scope.skipped[0] == "before"
    assert whole.scope.skipped[-1] == "compute-sanitizer: not installed here"
    fallen = confirmation.joined(found, judged(Status.BUILD_ERROR, "compiler-error"))
    assert [finding.kind for finding in fallen.findings] == ["compiler-error", "wrong-values"]


def test_a_fault_that_no_tool_sees_again_is_an_evaluation_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "by_sanitizer", lambda *_: confirmation.Look(None, (), ()))
    job = Job(
        problem=Problem(name="p", source="", trace=TRACE), candidate=Candidate(problem="p", source=""),
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".",
    )  # fmt: skip
    seen = confirmation.sanitized(job, Scope(executor="cuda"), lambda what: None)
    assert (seen.status, seen.findings) == (Status.UNSUPPORTED, (confirmation.NOTHING_SEEN,))


@pytest.mark.parametrize("confirms", ["stock", None])
def test_the_build_is_announced_before_the_turn_on_the_gpu(confirms: Literal["stock"] | None) -> None:
    said: list[str] = []

    class Lock:
        @contextlib.contextmanager
        def held(self) -> Iterator[None]:
            said.append("the turn")
            yield

    backend = cast(Backend, SimpleNamespace(gpu_lock=Lock()))
    job = Job(
        problem=Problem(name="p", source="", trace=TRACE), candidate=Candidate(problem="p", source=""),
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".", confirms=confirms,
    )  # fmt: skip
    with evaluate._turn(job, backend, said.append):
        pass
    assert said == ([confirmation.BUILT] if confirms else []) + ["the turn"]
