"""What a GPU looks at a second time, and what stands after it."""

from pathlib import Path
from typing import Literal

import pytest
from verdicts import refused, verified

from agent import config
from agent.api import Checks, Judge, solving
from agent.api import judge as api
from agent.api.choices import Choices
from agent.api.listening import Listener
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.errors import EnvironmentFault, UsageError
from agent.executors import JudgeOptions, LocalExecutor, local, warm
from agent.executors.local import Cancelled
from agent.harness.backends.cuda import CudaBackend
from agent.harness.confirmation import confirmation
from agent.harness.task.job import Announce, Job
from agent.problems import Shrunken
from agent.records import (
    Admission,
    Candidate,
    Envelope,
    Evaluation,
    Finding,
    KernelResources,
    Phase,
    Problem,
    Scope,
    SecondLook,
    Status,
    Trace,
)

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
SIZES = Shrunken(source="", sizes={}, trace=TRACE, full=True, fits=True, hard=())


PASSED = refused(1, confirmation.NOTHING_SEEN, status=Status.UNSUPPORTED).evaluation


class Looks(LocalExecutor):
    """Gives a verdict for each kind of look; `asked` are the jobs."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: Evaluation,
        stock: Evaluation | None = None, cheap: Evaluation = PASSED,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(
            warm, "begin", lambda *_: None
        )  # no process server for a judge that is asked here
        super().__init__("cuda", cache_dir=tmp_path, options=JudgeOptions(candidate_timeout_s=1.0))
        self.asked: list[Job] = []
        verdicts = {None: first, "cheap": cheap, "stock": stock}

        def judged(job: Job, announce: Announce, cancelled: Cancelled) -> Evaluation:
            self.asked.append(job)
            found = verdicts[job.confirms]
            assert found is not None
            return found

        monkeypatch.setattr(local, "judged", judged)

    def kinds(self) -> list[str]:
        """Of each look, in whatever order they began."""
        return sorted(job.confirms or "first" for job in self.asked)

    def _sizes(self, problem: Problem) -> Shrunken:
        return SIZES


def job(executor: Literal["cuda", "emulator"] = "cuda", protocol: Literal["full", "quick"] = "full") -> Job:
    problem = Problem(name="level1/x", source="", trace=TRACE)
    candidate = Candidate(problem=problem.name, source="")
    return Job(
        problem=problem, candidate=candidate, executor=executor, candidate_timeout_s=1.0, cache_dir=".",
        protocol=protocol,
    )  # fmt: skip


FIRST = verified(1, 0.5).evaluation
REFUSED = refused(1, status=Status.RUNTIME_ERROR).evaluation


def test_what_the_first_look_verifies_on_a_gpu_is_to_be_confirmed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST)
    found = executor.judge(job())
    assert executor.kinds() == ["first"]
    assert found.scope.confirmed is False
    assert found.unconfirmed
    assert not found.withdrawn
    assert "not confirmed by a second look" in str(found.scope)
    assert "not confirmed" in found.scope.limits


@pytest.mark.parametrize(
    ("given", "first"),
    [(job("emulator"), verified(1, executor="emulator").evaluation), (job(protocol="quick"), FIRST),
     (job(), REFUSED)],
)  # fmt: skip
def test_no_second_look_belongs_to_other_verdicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: Job, first: Evaluation
) -> None:
    executor = Looks(monkeypatch, tmp_path, first)
    found = executor.judge(given)
    assert found is first
    assert found.scope.confirmed is None
    assert executor.second_look(given, found) is found
    assert len(executor.asked) == 1


def test_the_second_look_stands_in_place_of_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    again = verified(1, 0.6).evaluation
    executor = Looks(monkeypatch, tmp_path, FIRST, again)
    found = executor.second_look(job(), executor.judge(job()))
    assert executor.kinds() == ["cheap", "first", "stock"]
    assert all(asked.shrunken == SIZES for asked in executor.asked if asked.confirms)
    assert found.measurement == again.measurement
    assert found.scope.confirmed is True
    assert "confirmed by a second look" in str(found.scope)
    assert found.scope.limits == ()
    assert executor.second_look(job(), found) is found, "what is confirmed is not looked at again"


UNSURE = Evaluation(
    status=Status.UNSUPPORTED, stage="run", scope=Scope(executor="emulator"),
    findings=(Finding(kind="not-emulated", message="It uses cudaGraph_t."),),
)  # fmt: skip
"""Verdict of an emulator that cannot run the candidate."""


def doubtful(emulator: Evaluation) -> Evaluation:
    """Result of the cheap checks where the emulator said this, and nothing else was found."""
    look = confirmation.by_emulator(emulator)
    scope = Scope(executor="cuda", skipped=look.skipped, doubt=look.doubt)
    return PASSED.model_copy(update={"scope": scope})


@pytest.mark.parametrize(
    ("emulator", "reason"),
    [(UNSURE, "unsupported (not-emulated: It uses cudaGraph_t.)"),
     (refused(1, Finding(kind="compile-error", message="No header."), status=Status.BUILD_ERROR).evaluation,
      "build_error (compile-error: No header.)"),
     (refused(1, status=Status.INCORRECT).evaluation, "incorrect"),
     (verified(1, executor="emulator").evaluation.model_copy(
         update={"scope": Scope(executor="emulator", shapes="shrunken", unexercised=("scan<8>",))}),
      "only the real sizes launch scan<8>")],
)  # fmt: skip
def test_a_look_without_its_main_check_confirms_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, emulator: Evaluation, reason: str
) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST, FIRST, doubtful(emulator))
    found = executor.second_look(job(), executor.judge(job()))
    assert found.status is Status.VERIFIED
    assert found.scope.confirmed is False
    assert not found.unconfirmed, "no further look is due"
    assert not found.withdrawn
    assert reason in found.scope.doubt[0]
    assert set(found.scope.doubt) <= set(found.scope.skipped)
    assert "could not do all of its checks" in str(found.scope)
    assert SecondLook(round=1, number=1, evaluation=found).outcome == "doubtful"


def test_a_user_can_insist_on_a_complete_second_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    insists = job().model_copy(update={"requests": ("confirmed",)})
    executor = Looks(monkeypatch, tmp_path, FIRST, FIRST, doubtful(UNSURE))
    found = executor.second_look(insists, executor.judge(insists))
    assert found.status is Status.UNSUPPORTED
    assert found.headline is not None
    assert found.headline.kind == "not-confirmed"
    assert "It uses cudaGraph_t." in found.headline.message
    complete = Looks(monkeypatch, tmp_path, FIRST, FIRST)
    assert complete.second_look(insists, complete.judge(insists)).scope.confirmed is True


def test_the_second_look_knows_what_ptxas_said_in_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST, FIRST)
    executor.second_look(job(), executor.judge(job()))
    assert FIRST.build is not None
    assert FIRST.build.kernels
    known = {asked.confirms: asked.kernels for asked in executor.asked}
    assert known == {None: (), "cheap": FIRST.build.kernels, "stock": FIRST.build.kernels}


def test_a_stock_build_has_the_registers_of_the_judge_s_own() -> None:
    told = KernelResources(name="k", registers=40, spill_bytes=0, shared_bytes=1024)
    backend = CudaBackend.__new__(CudaBackend)
    backend._job = job().model_copy(update={"kernels": (told,)})
    backend.requests = [BuildRequest(candidate_source="", name="x", cpp_sources=())]
    own = KernelResources(name="k", registers=32)
    for build, kernels in ((Built(library=None, seconds=1, backend="load_inline"), (told,)),
                           (Built(library=None, seconds=1, backend="load_inline", kernels=(own,)), (own,)),
                           (Built(library=None, seconds=1, backend="slim"), ())):  # fmt: skip
        backend._builds = [build]
        found = backend.built()
        assert found is not None
        assert found.kernels == kernels
    backend._builds, backend.requests = [], []
    assert backend.built() is None


def test_what_the_second_look_refuses_is_withdrawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST, REFUSED)
    found = executor.second_look(job(), executor.judge(job()))
    assert (found.status, found.findings) == (REFUSED.status, REFUSED.findings)
    assert found.withdrawn
    assert not found.unconfirmed


def test_what_the_cheap_looks_refuse_needs_no_stock_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST, FIRST, REFUSED)
    found = executor.second_look(job(), executor.judge(job()))
    assert found.withdrawn
    assert found.findings == REFUSED.findings


def test_a_fault_of_ours_in_the_second_look_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executor = Looks(monkeypatch, tmp_path, FIRST)
    found = executor.judge(job())

    def broken(job: Job, announce: Announce, cancelled: Cancelled) -> Evaluation:
        raise EnvironmentFault("the GPU no longer answers")

    monkeypatch.setattr(local, "judged", broken)
    with pytest.raises(EnvironmentFault, match="no longer answers"):
        executor.second_look(job(), found)


def test_the_second_look_takes_over_what_the_first_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handled = Envelope(probes=())
    first = FIRST.model_copy(update={"phases": (Phase(name="building", seconds=2.0),), "envelope": handled})
    cheap = PASSED.model_copy(update={"phases": (Phase(name="on the emulator", seconds=4.0),)})
    executor = Looks(monkeypatch, tmp_path, first, FIRST, cheap)
    found = executor.second_look(job(), executor.judge(job()))
    assert found.envelope == handled
    assert [phase.name for phase in found.phases][:2] == ["building", "second look, on the emulator"]


@pytest.mark.parametrize(("waits", "looks"), [(True, 1), (False, 0)])
def test_the_judge_of_the_api_waits_for_it_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, waits: bool, looks: int
) -> None:
    class Two:
        asked = 0

        def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
            return FIRST

        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            assert evaluation is FIRST
            self.asked += 1
            return REFUSED

    executor = Two()
    monkeypatch.setattr(api, "local_executor", lambda *_: executor)
    monkeypatch.setattr(api, "admitted", lambda *_: Admission())
    monkeypatch.setattr(api, "begin_servers", lambda settings: None)
    judge = Judge(job().problem, checks=Checks(confirm=waits))
    assert judge.evaluate(job().candidate) is (REFUSED if waits else FIRST)
    assert executor.asked == looks


@pytest.mark.parametrize("checks", [Checks(confirm=False), Checks(confirm=False, quick=True)])
def test_there_is_no_second_look_to_leave_out_on_the_emulator(checks: Checks) -> None:
    settings = config.load({"executor": "emulator"}, offline=True).settings
    with pytest.raises(UsageError, match="no second look on the emulator"):
        api.local_executor(settings, job().problem, checks, Listener())


@pytest.mark.parametrize(
    ("flags", "checks"),
    [({"confirm": "none"}, Checks()), ({"confirm": "end"}, Checks()), ({}, Checks(confirm=False))],
)
def test_a_run_has_none_to_choose_on_the_emulator(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, str], checks: Checks
) -> None:
    monkeypatch.setattr(solving, "begin_servers", lambda settings: None)
    monkeypatch.setattr(solving, "load_problem", lambda *_, **__: job().problem)
    monkeypatch.setattr(solving, "choose", lambda *_, **__: NoGpu())
    monkeypatch.setattr(solving, "executor_for", lambda *_: NoGpu())
    settings = config.load({"executor": "emulator", **flags}, offline=True).settings
    with pytest.raises(UsageError, match="no second look on the emulator"):
        solving.begin("p", settings, checks, Choices(), Listener())


class NoGpu:
    name = "emulator"
