"""What the emulator's verdict means for a candidate that a GPU has verified."""

from typing import Literal, cast

import pytest
from verdicts import refused, verified

from agent.harness.backends.backend import Backend
from agent.harness.confirmation import confirmation, sanitizer, unfollowed
from agent.harness.judge import evaluate
from agent.harness.task import faults
from agent.harness.task.job import Announce, Job
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, Finding, Location, Problem, Scope, Status, Trace
from agent.torch_shim.finding_kinds import FindingKind

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
SIZES = Shrunken(source="", sizes={}, trace=TRACE, full=True, fits=True, hard=())


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
    assert "At the problem's own sizes, on the emulator: Something is wrong." in look.findings[0].message
    assert len(look.skipped) == 1


READ = FindingKind.GLOBAL_OUT_OF_BOUNDS_READ


@pytest.mark.parametrize(
    ("shapes", "beside", "refuses"),
    [("full", (), True), ("shrunken", (), False), ("shrunken", (faults.SOME_CALLS,), True)],
)
def test_out_of_bounds_counts_unless_the_sizes_may_be_the_reason(
    shapes: Literal["full", "shrunken"], beside: tuple[Finding, ...], refuses: bool
) -> None:
    found = (Finding(kind=READ, message="Reads past the end."), *beside)
    seen = Evaluation(
        status=Status.RUNTIME_ERROR, stage="run", scope=Scope(executor="emulator", shapes=shapes),
        findings=found,
    )  # fmt: skip
    look = confirmation.by_emulator(seen)
    assert look.status is (Status.RUNTIME_ERROR if refuses else None)
    assert (look.findings == found) is refuses


def test_what_a_note_tells_of_sizes_that_are_not_supported_refuses_nothing() -> None:
    reason = Finding(kind="hard-coded-size", message="It holds 4096.")
    race = Finding(kind=confirmation.NEVER[0], message="A race.", severity="note")
    seen = refused(1, reason, race, faults.SOME_CALLS, status=Status.UNSUPPORTED).evaluation
    assert confirmation.by_emulator(seen).status is None


def at_sizes(**sizes: tuple[int, int]) -> Evaluation:
    """Verified by the emulator with these sizes scaled."""
    found = verified(1, executor="emulator").evaluation
    scope = Scope(executor="emulator", shapes="shrunken" if sizes else "full", sizes=sizes)
    return found.model_copy(update={"scope": scope})


@pytest.mark.parametrize(
    ("seen", "source", "full"),
    [
        (at_sizes(columns=(4096, 64)), "x = 4096", None),
        (at_sizes(rows=(64, 2)), "x = 4096", None),
        (at_sizes(), "x = 4096", None),
        (judged(Status.INCORRECT, "wrong-values"), "", True),
        (judged(Status.UNSUPPORTED, "unsupported-construct"), "x = 1", False),
        (judged(Status.UNSUPPORTED, "unsupported-construct"), "x = 4096", True),
        (judged(Status.UNSUPPORTED, "sizes-declined"), "", True),
    ],
)
def test_the_sanitizer_watches_the_real_sizes_where_small_ones_may_not_do(
    seen: Evaluation, source: str, full: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: the emulator has checked all kernels, and nothing is left to ask."""
    asked: list[Shrunken] = []

    def check(job: Job, at: Shrunken, announce: Announce) -> tuple[list[Finding], tuple[str, ...]]:
        asked.append(at)
        return [], ()

    monkeypatch.setattr(sanitizer, "check", check)
    sizes = {"columns": (4096, 64)}
    small = Shrunken(source="small", sizes=sizes, trace=TRACE, full=False, fits=True, hard=(4096,))
    job = Job(
        problem=Problem(name="p", source="own", trace=TRACE),
        candidate=Candidate(problem="p", source=source), executor="cuda", candidate_timeout_s=1.0,
        cache_dir=".", shrunken=small, confirms="cheap",
    )  # fmt: skip
    confirmation.by_small_sizes(job, Scope(executor="cuda"), seen, lambda what: None)
    expected = [] if full is None else [(full, "own" if full else "small")]
    assert [(at.full, at.source) for at in asked] == expected


def test_what_the_emulator_does_not_run_is_said_and_nothing_else() -> None:
    look = confirmation.by_emulator(judged(Status.UNSUPPORTED, "unsupported-construct"))
    assert (look.status, look.findings, look.skipped) == (None, (), look.doubt)
    assert len(look.doubt) == 1
    assert confirmation.by_emulator(verified(1).evaluation) == (None, (), (), ())


def looked(
    monkeypatch: pytest.MonkeyPatch, seen: Evaluation, *reports: Finding, skipped: tuple[str, ...] = ()
) -> Evaluation:
    """The cheap looks, with what compute-sanitizer reports."""
    asked: list[Job] = []

    def check(job: Job, at: Shrunken, announce: Announce) -> tuple[list[Finding], tuple[str, ...]]:
        asked.append(job)
        return list(reports), skipped

    monkeypatch.setattr(sanitizer, "check", check)
    job = Job(
        problem=Problem(name="p", source="", trace=TRACE), candidate=Candidate(problem="p", source=""),
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".", shrunken=SIZES, confirms="cheap",
    )  # fmt: skip
    scope = Scope(executor="cuda", skipped=("before",))
    found = confirmation.by_small_sizes(job, scope, seen, lambda what: None)
    decided = confirmation.by_emulator(seen).status or confirmation._has_decided(job, seen)
    assert len(asked) == (0 if decided else 1), "the cheapest comes first"
    return found


def test_the_sanitizer_is_not_asked_of_what_the_emulator_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(Status.RUNTIME_ERROR, confirmation.NEVER[0])
    found = looked(monkeypatch, seen)
    assert (found.status, found.findings) == (Status.RUNTIME_ERROR, seen.findings)
    assert not confirmation.admits(found)


def test_what_the_sanitizer_reports_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    report = Finding(kind=sanitizer.OUT_OF_BOUNDS, message="Invalid write.")
    found = looked(monkeypatch, seen_without("ring"), report)
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
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".", shrunken=SIZES,
    )  # fmt: skip
    seen = confirmation.sanitized(job, Scope(executor="cuda"), lambda what: None)
    assert (seen.status, seen.findings) == (Status.UNSUPPORTED, (confirmation.NOTHING_SEEN,))


@pytest.mark.parametrize("confirms", ["stock", None])
def test_a_judge_that_confirms_announces_its_build(confirms: Literal["stock"] | None) -> None:
    said: list[str] = []
    job = Job(
        problem=Problem(name="p", source="", trace=TRACE), candidate=Candidate(problem="p", source=""),
        executor="cuda", candidate_timeout_s=1.0, cache_dir=".", confirms=confirms,
    )  # fmt: skip
    evaluate._require_new(job, cast(Backend, None), said.append)
    assert said == ([confirmation.BUILT] if confirms else [])


RACE = Finding(kind=FindingKind.SHARED_RACE, message="A race.", location=Location(kernel="plain"))
DOUBTED = unfollowed.weighed(
    RACE.model_copy(update={"location": Location(kernel="ring")}), unfollowed.Kernels(frozenset({"ring"}))
)
"""A race that racecheck reports of a kernel whose synchronization it does not follow."""


def test_a_doubted_race_is_named_beside_the_verdict_where_the_emulator_finds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = looked(monkeypatch, seen_without("another"), DOUBTED)
    assert confirmation.admits(found)
    assert found.findings[1:] == (DOUBTED,)
    assert found.scope.doubt == (
        "its kernels repeated without host code: only the real sizes launch another<8>",
    )
    (words,) = [check for check in found.scope.skipped[1:] if check not in found.scope.doubt]
    assert "racecheck reports one in ring" in words
    assert words.endswith("not counted, the emulator finds none in it")


def seen_without(kernel: str) -> Evaluation:
    seen = verified(1, executor="emulator").evaluation
    return seen.model_copy(update={"scope": seen.scope.model_copy(update={"unexercised": (f"{kernel}<8>",)})})


@pytest.mark.parametrize(
    "seen",
    [
        seen_without("ring"),
        refused(
            1, Finding(kind="unsupported-construct", message="No."), status=Status.UNSUPPORTED
        ).evaluation,
        refused(
            1, Finding(kind="wrong-values", message="At small sizes."), status=Status.INCORRECT
        ).evaluation,
    ],
    ids=["only at the real sizes", "unsupported", "wrong at small sizes"],
)
def test_a_doubted_race_is_named_as_unchecked_where_the_emulator_did_not_run_the_kernel(
    seen: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = looked(monkeypatch, seen, DOUBTED)
    assert confirmation.admits(found)
    assert found.scope.skipped[-1].endswith("the emulator did not check it")


@pytest.mark.parametrize("kind", [FindingKind.ASYNC_COPY_NOT_WAITED, FindingKind.CLUSTER_PEER_GONE])
def test_a_doubted_race_refuses_where_the_emulator_finds_fault_with_shared_memory_too(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Finding(kind=kind, message="Reads what is on its way.")
    found = looked(monkeypatch, refused(1, fault, status=Status.RUNTIME_ERROR).evaluation, DOUBTED)
    assert found.status is Status.RUNTIME_ERROR
    assert found.headline is not None
    assert (found.headline.kind, found.headline.severity) == (FindingKind.SHARED_RACE, "error")


def test_a_doubted_race_refuses_beside_a_report_that_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(monkeypatch, seen_without("ring"), DOUBTED, RACE)
    assert found.status is Status.RUNTIME_ERROR
    assert [finding.severity for finding in found.findings] == ["error", "warning"]
