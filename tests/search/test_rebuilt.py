"""Answers that build to a program of an earlier one: they are told so, and their runs go on anywhere."""

import pytest
from search.searching import Events, Judge, Model, confirmed, searched, terms
from second_looks import PROBLEM
from verdicts import refused

from agent.errors import Rebuilt
from agent.executors import LocalExecutor, Once
from agent.loop import Terms
from agent.records import (
    Build,
    Candidate,
    Completed,
    Evaluated,
    Evaluation,
    Event,
    Problem,
    ReplyRejected,
    Status,
)
from agent.store import Log, Resume

POLICIES = ("line", "beam", "evolve")


def patient(search: str) -> Terms:
    return terms(search, parallel=1).model_copy(update={"patience": 6})


def program_of(candidate: Candidate) -> str:
    """The same for a few kernels in a row."""
    return str(int(float(candidate.source.split()[-1]) * 100) // 400)


class Compiling(Judge):
    """Judges a program once."""

    def __init__(self, known: set[str]) -> None:
        super().__init__()
        self.known = known

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        program = program_of(candidate)
        if program in self.known:
            raise Rebuilt(program)
        self.known.add(program)
        found = super().evaluate(problem, candidate)
        build = Build(seconds=1, backend="gpu-slim", program=program)
        return found.model_copy(update={"build": build})


def programs(events: list[Event]) -> set[str]:
    made = (event.attempt.evaluation.build for event in events if isinstance(event, Evaluated))
    return {build.program for build in made if build and build.program}


@pytest.mark.parametrize("search", POLICIES)
def test_a_program_is_judged_once_and_its_repeats_are_told_of(search: str) -> None:
    events = Events()
    searched(patient(search), Model(), Compiling(set()), events)
    made = [program_of(event.attempt.candidate) for event in events if isinstance(event, Evaluated)]
    repeats = [event for event in events if isinstance(event, ReplyRejected) and event.program]
    assert len(made) == len(set(made))
    assert repeats
    for event in repeats:
        assert event.program in made
        assert event.feedback.kind == "repeated-answer"
        number = made.index(event.program) + 1
        assert f"builds to the program of attempt {number} again, which was judged" in event.feedback.text


@pytest.mark.parametrize("search", POLICIES)
def test_a_run_with_repeats_stopped_anywhere_goes_on(search: str) -> None:
    events = Events()
    searched(patient(search), Model(), Compiling(set()), events)
    for known in range(len(events) + 1):
        before = events[:known]
        judge, written = Compiling(programs(before)), Events()
        searched(patient(search), Model(), judge, written, resume=Resume(Log(tuple(before))))
        after = [*before, *written]
        made = [program_of(event.attempt.candidate) for event in after if isinstance(event, Evaluated)]
        assert len(made) == len(set(made))
        came_of = [event for event in after if isinstance(event, Evaluated | ReplyRejected)]
        assert len(came_of) == len([event for event in after if isinstance(event, Completed)])


class Inner(LocalExecutor):
    """Notes what it is told of known programs."""

    def __init__(self, found: list[Evaluation]) -> None:
        self.found, self.told = found, list[tuple[str, ...]]()
        self.name = "cuda"

    def job(self, problem: Problem, candidate: Candidate) -> "Inner":  # type: ignore[override]
        return self

    def model_copy(self, *, update: dict[str, tuple[str, ...]]) -> "Inner":
        self.told.append(update["known"])
        return self

    def judge(self, job: object) -> Evaluation:
        return self.found.pop(0)


def built(found: Evaluation, program: str) -> Evaluation:
    return found.model_copy(update={"build": Build(seconds=1, backend="gpu-slim", program=program)})


def test_what_may_end_otherwise_is_judged_again_and_so_is_a_mend() -> None:
    ended = refused(1, status=Status.TIMEOUT).evaluation
    inner = Inner([built(ended, "a"), built(confirmed(1.0), "b"), built(confirmed(1.0), "b")])
    once = Once(inner, [built(refused(1).evaluation, "c"), confirmed(1.0)])
    for origin in ("model", "model", "mend"):
        once.evaluate(PROBLEM, Candidate.model_validate({"problem": "p", "source": "", "origin": origin}))
    assert inner.told == [("c",), ("c",), ()]
    assert once.name == "cuda"
