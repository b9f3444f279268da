"""A fault that a GPU reports without its line gets that of what shows at small sizes; the verdict stays."""

import pytest

from agent import config, problems
from agent.executors import local, warm
from agent.executors.local import Cancelled, JudgeOptions, LocalExecutor
from agent.harness.confirmation import fault_localization
from agent.harness.task.job import Announce, Job
from agent.records import Candidate, Evaluation, Finding, Location, Scope, Status

ILLEGAL = Finding(
    kind="illegal-address",
    message="forward failed: CUDA error 700 (cudaErrorIllegalAddress): an illegal memory access.",
    location=Location(line=40, text="return ext.f(x)"),
    evidence="Traceback (most recent call last)",
)
PAST_THE_END = Finding(
    kind="global-out-of-bounds-write",
    message="Writes element 1024 of `y`, which has 1024.",
    location=Location(line=12, kernel="scale", block=(3, 0, 0), thread=(255, 0, 0)),
)
RACE = Finding(kind="shared-race", message="no barrier", location=Location(line=9, kernel="scale"))


def verdict(executor: str, *findings: Finding, status: Status = Status.RUNTIME_ERROR) -> Evaluation:
    return Evaluation(status=status, stage="run", scope=Scope(executor=executor), findings=findings)


def never() -> Evaluation:
    raise AssertionError("nobody needs another look")


def test_the_place_is_the_emulators_and_the_verdict_the_gpus() -> None:
    on_gpu = verdict("cuda", ILLEGAL, RACE)
    found = fault_localization.located(on_gpu, lambda: verdict("emulator", RACE, PAST_THE_END))
    assert found.scope == on_gpu.scope
    assert found.status is Status.RUNTIME_ERROR
    headline, other = found.findings
    assert headline.kind == "global-out-of-bounds-write"
    assert headline.location == PAST_THE_END.location
    assert "small sizes" in headline.message
    assert PAST_THE_END.message in headline.message
    assert headline.evidence is not None
    assert ILLEGAL.message in headline.evidence
    assert other == RACE


@pytest.mark.parametrize(
    "seen",
    [
        verdict("emulator", RACE),
        verdict("emulator", Finding(kind="wrong-values", message="wrong"), status=Status.INCORRECT),
        verdict("emulator", PAST_THE_END.model_copy(update={"severity": "warning"})),
        verdict("emulator", ILLEGAL),
    ],
)
def test_what_does_not_show_again_stays_as_it_was_and_says_so(seen: Evaluation) -> None:
    (headline,) = fault_localization.located(verdict("cuda", ILLEGAL), lambda: seen).findings
    assert (headline.kind, headline.message, headline.location) == (
        ILLEGAL.kind, ILLEGAL.message, ILLEGAL.location,
    )  # fmt: skip
    assert f"did not show: {seen.status} (emulator)" in (headline.evidence or "")


@pytest.mark.parametrize(
    "found",
    [
        verdict("emulator", ILLEGAL),
        verdict("cuda", ILLEGAL, status=Status.INCORRECT),
        verdict("cuda", Finding(kind="python-error", message="ValueError")),
        verdict("cuda", ILLEGAL.model_copy(update={"location": Location(line=12, kernel="scale")})),
    ],
)
def test_other_verdicts_need_no_other_look(found: Evaluation) -> None:
    assert fault_localization.located(found, never) is found


def test_the_sanitizer_is_asked_where_the_emulator_names_no_kernel() -> None:
    by_sanitizer = verdict("cuda", PAST_THE_END)
    race = verdict("emulator", RACE)
    assert (
        fault_localization.looked_for("illegal-address", lambda: race, lambda: by_sanitizer) is by_sanitizer
    )
    by_emulator = verdict("emulator", PAST_THE_END)
    assert fault_localization.looked_for("illegal-address", lambda: by_emulator, never) is by_emulator
    assert fault_localization.looked_for("timeout", lambda: race, never) is race


def test_a_kernel_that_never_ends_is_named_by_the_barrier_it_waits_at() -> None:
    hang = Finding(kind="timeout", message="no answer", location=Location(line=40, text="ext.f(x)"))
    barrier = Finding(
        kind="divergent-barrier", message="not all threads", location=Location(line=9, kernel="scale")
    )
    on_gpu = verdict("cuda", hang, status=Status.TIMEOUT)
    found = fault_localization.located(on_gpu, lambda: verdict("emulator", PAST_THE_END, barrier))
    assert found.status is Status.TIMEOUT
    assert found.headline is not None
    assert found.headline.location == barrier.location


def test_the_executor_looks_again_with_small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    problem = problems.load("level1/softmax")
    candidate = Candidate(problem=problem.name, source="class ModelNew: ...")
    asked: list[Job] = []

    def judged(job: Job, announce: Announce, cancelled: Cancelled) -> Evaluation:
        asked.append(job)
        return verdict("emulator", PAST_THE_END) if job.locates else verdict("cuda", ILLEGAL)

    monkeypatch.setattr(local, "judged", judged)
    monkeypatch.setattr(warm, "begin", lambda *_: None)
    executor = LocalExecutor("cuda", cache_dir=cache_dir, options=JudgeOptions(candidate_timeout_s=9))
    job = Job(
        problem=problem, candidate=candidate, executor="cuda", candidate_timeout_s=9, cache_dir=str(cache_dir)
    )
    found = executor.judge(job)
    assert [job.locates for job in asked] == [None, "illegal-address"]
    assert asked[1].executor == "cuda"
    assert asked[1].shrunken is not None
    assert found.headline is not None
    assert found.headline.location == PAST_THE_END.location
