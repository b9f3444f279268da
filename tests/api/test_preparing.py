"""Preparation while a model writes: nothing is judged before it ends, and a refusal ends the run at once."""

import threading
from collections.abc import Callable

import pytest
from second_looks import PROBLEM, Answers, Events, TwoLooks

from agent.api.listening import Listener
from agent.api.preparing import Behind, Preparation, PreparedExecutor, PreparedProvider, answers_at_once
from agent.errors import EnvironmentFault, ProblemError, Unprepared
from agent.loop import Terms, solve
from agent.records import Admission, Completion, Problem, Prompt

LONG_S = 60.0
"""A thread that waits for longer than this has hung."""


class Heard(Listener):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.steps.append(text)


class Admitting(TwoLooks):
    """An executor that admits once it is allowed to, or refuses with an error."""

    def __init__(self, told: Listener, *, known: bool = False, error: Exception | None = None) -> None:
        super().__init__()
        self.told, self.known, self.error = told, known, error
        self.allowed, self.prepared = threading.Event(), threading.Event()
        self.admissions = 0

    def is_admission_known(self, problem: Problem) -> bool:
        return self.known

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        self.told.update("probing the problem")
        assert self.known or self.allowed.wait(LONG_S)
        self.admissions += 1
        if self.error:
            raise self.error
        return Admission(note="not probed here")

    def prepare(self, problem: Problem) -> None:
        self.prepared.set()


class Case:
    """A run of one question, prepared beside it."""

    def __init__(
        self, *, known: bool = False, error: Exception | None = None, heard: Heard | None = None
    ) -> None:
        self.heard, self.events = heard or Heard(), Events()
        told = Behind(self.heard)
        self.judge = Admitting(told, known=known, error=error)
        self.preparation = Preparation(self.judge, PROBLEM, False, told)  # type: ignore[arg-type]

    def run(self, while_writing: Callable[[int], None] = lambda number: None, *times: float) -> None:
        times = times or (2.0,)
        provider = PreparedProvider(Answers(*times, while_writing=while_writing), self.preparation)
        executor = PreparedExecutor(self.judge, self.preparation)
        solve(PROBLEM, provider, executor, self.events, Terms(rounds=len(times), patience=9, gpu="H200"))


def test_the_first_question_does_not_wait_for_the_admission_and_the_first_verdict_does() -> None:
    case = Case()
    asked_before = []

    def while_writing(number: int) -> None:
        asked_before.append(case.judge.admissions)
        case.judge.allowed.set()

    case.preparation.begin()
    case.run(while_writing)
    assert asked_before == [0]
    assert case.judge.admissions == 1
    assert case.heard.said == ["admission: not probed here"]
    assert case.judge.prepared.wait(LONG_S), "sizes and headers follow"


def test_nothing_is_judged_while_the_admission_goes_on() -> None:
    judged_before: list[int] = []

    class Shown(Heard):
        def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
            super().update(text)
            judged_before.append(len(case.judge.judged))
            case.judge.allowed.set()

    case = Case(heard=Shown())
    case.preparation.begin()
    case.run()
    # The step is shown because the verdict waits for it, which lets the admission end.
    assert case.heard.steps == ["probing the problem"]
    assert (judged_before, case.judge.judged) == ([0], [2.0])


def test_what_the_cache_knows_is_said_before_the_first_question() -> None:
    case = Case(known=True)
    case.preparation.begin()
    assert case.heard.said == ["admission: not probed here"]


def test_a_refusal_that_the_cache_knows_comes_before_the_first_question() -> None:
    case = Case(known=True, error=ProblemError("wrong answers would be verified"))
    with pytest.raises(ProblemError, match="would be verified"):
        case.preparation.begin()


def test_a_refusal_ends_the_run_while_the_answer_is_still_awaited() -> None:
    case, ended = Case(error=ProblemError("wrong answers would be verified")), threading.Event()

    def while_writing(number: int) -> None:
        case.judge.allowed.set()
        assert ended.wait(LONG_S)

    case.preparation.begin()
    with pytest.raises(ProblemError, match="would be verified"):
        case.run(while_writing)
    ended.set()
    assert [event.kind for event in case.events] == ["prompted"], "the question is in the transcript"
    assert not case.judge.prepared.is_set()


def test_what_cannot_be_probed_here_ends_the_run_and_costs_no_round() -> None:
    case = Case(error=EnvironmentFault("no memory", "Traceback"))
    case.preparation.begin()
    with pytest.raises(Unprepared, match="no memory") as raised:
        case.run(lambda number: case.judge.allowed.set())
    assert raised.value.details == "Traceback"
    assert case.events.kinds() == []


def test_an_answer_that_has_come_is_written_down_though_the_problem_is_refused() -> None:
    case = Case(error=ProblemError("wrong answers would be verified"))
    case.preparation.begin()
    answer = PreparedProvider(Answers(2.0), case.preparation).complete(
        Prompt(template="generate", messages=())
    )
    assert isinstance(answer, Completion)
    case.judge.allowed.set()
    with pytest.raises(ProblemError):
        case.preparation.wait()


def test_steps_of_the_preparation_show_only_while_somebody_waits_for_it() -> None:
    heard = Heard()
    told, stepped, shown, end = Behind(heard), *(threading.Event() for _ in range(3))

    def work() -> None:
        told.update("probing")
        stepped.set()
        assert shown.wait(LONG_S)
        told.update("scaling")
        end.set()

    told.start(work)
    assert stepped.wait(LONG_S)
    told.update("receiving")
    assert heard.steps == ["receiving"]
    with told.waiting():
        shown.set()
        assert end.wait(LONG_S)
    assert heard.steps == ["receiving", "probing", "scaling"]


@pytest.mark.parametrize(
    ("provider", "no_wait", "expected"),
    [("catalogue", False, True), ("compose", False, True), ("replay:x", False, True),
     ("file:a.py", False, True), ("openai_compat", False, False), ("command:x", False, False),
     ("mailbox:box", False, False),
     ("mailbox:box", True, True)],
)  # fmt: skip
def test_only_what_takes_time_to_answer_leaves_time_to_prepare(
    provider: str, no_wait: bool, expected: bool
) -> None:
    assert answers_at_once(provider, no_wait=no_wait) is expected
