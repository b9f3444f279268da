"""The two judges of a second look: one builds while the other looks, and only one of them has the GPU."""

import threading

import pytest
from verdicts import refused, verified

from agent.errors import EnvironmentFault
from agent.executors import second_look
from agent.harness.confirmation import confirmation
from agent.harness.task.job import Announce, Job
from agent.records import Candidate, Evaluation, Finding, Phase, Problem, Status, Trace

LONG_S = 60.0
"""A thread that waits for longer than this has hung."""
TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="level1/x", source="", trace=TRACE)
JOB = Job(
    problem=PROBLEM, candidate=Candidate(problem=PROBLEM.name, source=""), executor="cuda",
    candidate_timeout_s=1.0, cache_dir=".",
)  # fmt: skip
NOTE = Finding(kind="wrong-values", message="At smaller sizes it is wrong.", severity="warning")
PASSED = refused(1, confirmation.NOTHING_SEEN, NOTE, status=Status.UNSUPPORTED).evaluation
REFUSED = refused(1, Finding(kind="shared-race", message="A race."), status=Status.RUNTIME_ERROR).evaluation
STOCK = verified(1, 0.5).evaluation


class Judges:
    """Both judges, in a thread each; `said` is what they did, in order."""

    def __init__(self, cheap: Evaluation | Exception, stock: Evaluation | Exception = STOCK) -> None:
        self.cheap, self.stock = cheap, stock
        self.said: list[str] = []
        self.begun, self.built, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, job: Job, announce: Announce) -> Evaluation:
        return self._cheap(announce) if job.confirms == "cheap" else self._stock(announce)

    def _cheap(self, announce: Announce) -> Evaluation:
        assert self.begun.wait(LONG_S), "the stock build waits for the cheap looks"
        announce("on the emulator")
        assert self.built.wait(LONG_S)
        self.said.append("the cheap looks end")
        return given(self.cheap)

    def _stock(self, announce: Announce) -> Evaluation:
        try:
            self.begun.set()
            announce("building")
            self.built.set()
            announce(confirmation.BUILT)
            self.said.append("the stock build has the GPU")
            announce("verifying: draw 1")
            return given(self.stock)
        finally:
            self.ended.set()


def given(outcome: Evaluation | Exception) -> Evaluation:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def test_the_stock_build_begins_at_once_and_waits_for_the_gpu() -> None:
    judges, told = Judges(PASSED), list[str]()
    found = second_look.made(JOB, judges, told.append)
    assert judges.said == ["the cheap looks end", "the stock build has the GPU"]
    assert told == ["on the emulator", second_look.WAITING, "verifying: draw 1"], "the build is told late"
    assert (found.status, found.measurement) == (Status.VERIFIED, STOCK.measurement)
    assert found.findings == (NOTE,), "what the cheap looks warn of is kept"


def test_the_judge_of_the_stock_build_is_given_up_where_the_cheap_looks_refuse() -> None:
    judges = Judges(REFUSED)
    assert second_look.made(JOB, judges, lambda what: None) is REFUSED
    assert judges.ended.wait(LONG_S)
    assert judges.said == ["the cheap looks end"]


def test_a_fault_of_the_cheap_looks_gives_the_other_up_as_well() -> None:
    judges = Judges(EnvironmentFault("no sanitizer"))
    with pytest.raises(EnvironmentFault, match="no sanitizer"):
        second_look.made(JOB, judges, lambda what: None)
    assert judges.ended.wait(LONG_S)
    assert judges.said == ["the cheap looks end"]


def test_a_fault_of_the_stock_build_counts_where_its_verdict_is_wanted() -> None:
    fault = EnvironmentFault("the GPU is gone")
    with pytest.raises(EnvironmentFault, match="the GPU is gone"):
        second_look.made(JOB, Judges(PASSED, fault), lambda what: None)
    assert second_look.made(JOB, Judges(REFUSED, fault), lambda what: None) is REFUSED


def test_time_is_counted_once() -> None:
    cheap = PASSED.model_copy(update={"phases": (Phase(name="on the emulator", seconds=4.0),)})
    beside = STOCK.model_copy(update={"phases": (Phase(name="building", seconds=22.0),)})
    found = second_look.made(JOB, Judges(cheap, beside), lambda what: None)
    assert found.phases[0] == cheap.phases[0]
    assert "building" not in {phase.name for phase in found.phases}, "it went on beside the cheap looks"
