"""Fakes for a search on a GPU: verdicts follow the candidate's text, second looks end on command."""

from collections.abc import Callable

from verdicts import refused, verified

from agent.errors import EnvironmentFault
from agent.protocols import Confirmer, Look, Pacing
from agent.records import (
    Attempt,
    Candidate,
    Completion,
    Evaluation,
    Event,
    Finding,
    Problem,
    Prompt,
    Status,
    Trace,
)
from agent.search.budget import Budget, Limits
from agent.store import Resume

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="p", source="class Model: ...\n", trace=TRACE)
RACE = Finding(kind="shared-race", message="No barrier between two accesses.")
REFUSAL = refused(1, RACE, status=Status.RUNTIME_ERROR).evaluation


def first(ms: float) -> Evaluation:
    """Return a verified but unconfirmed evaluation on a GPU."""
    return marked(verified(1, ms).evaluation, confirmed=False)


def marked(found: Evaluation, *, confirmed: bool) -> Evaluation:
    return found.model_copy(update={"scope": found.scope.model_copy(update={"confirmed": confirmed})})


def answer(ms: float) -> str:
    return f"```python\nclass ModelNew:\n    ms = {ms}\n```"


class TwoLooks:
    """Executor that takes a candidate's time from its text, such as `ms = 2.0`.

    A second look confirms. It refuses candidates with a time in `refuses`. It raises for a time in `breaks`,
    as often as the value says.
    """

    name = "cuda"

    def __init__(self, *, refuses: tuple[float, ...] = (), breaks: dict[float, int] | None = None) -> None:
        self.refuses, self.breaks = refuses, dict(breaks or {})
        self.judged: list[float] = []
        self.looked: list[float] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.judged.append(time_of(candidate))
        return first(time_of(candidate))

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        ms = time_of(candidate)
        self.looked.append(ms)
        if self.breaks.get(ms, 0) > 0:
            self.breaks[ms] -= 1
            raise EnvironmentFault("the GPU is gone", "Traceback of the judge")
        return marked(REFUSAL if ms in self.refuses else evaluation, confirmed=ms not in self.refuses)


def time_of(candidate: Candidate) -> float:
    return float(candidate.source.split()[-1])


class Held:
    """Confirmer whose current look ends when `ended` is set, or at once with `at_once`."""

    def __init__(self, executor: TwoLooks, *, at_once: bool = False) -> None:
        self.executor, self.at_once, self.ended = executor, at_once, False
        self.attempt: Attempt | None = None

    def begin(self, attempt: Attempt) -> None:
        self.attempt, self.ended = attempt, self.at_once

    def ready(self) -> bool:
        return self.ended

    def outcome(self) -> Look:
        assert self.attempt is not None
        attempt = self.attempt
        try:
            return Look(self.executor.confirm(PROBLEM, attempt.candidate, attempt.evaluation), 40.0)
        except EnvironmentFault as fault:
            return Look(fault, 40.0)


def paced(confirmer: Confirmer, resume: Resume | None = None) -> Pacing:
    """Return a pacing with one round at a time and no limits."""
    budget = Budget(Limits())
    return Pacing(confirmer, resume.pace(budget) if resume else budget)


class Answers:
    """Provider that calls `while_writing` with the number of the question before each answer.

    The first `known` answers were received by an earlier process.
    """

    name = "scripted"

    def __init__(
        self, *times: float, while_writing: Callable[[int], None] = lambda number: None, known: int = 0
    ) -> None:
        self._times, self._known = list(times), known
        self._while_writing = while_writing
        self.asked: list[Prompt] = []

    def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        number = self._known + len(self.asked)
        self._while_writing(number)
        text = answer(self._times[number - 1])
        return Completion(provider=self.name, model=None, text=text)


class Events(list[Event]):
    """Transcript in memory."""

    def kinds(self) -> list[str]:
        return [event.kind for event in self if event.kind not in ("prompted", "completed")]
