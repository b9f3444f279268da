"""A search without a model and a GPU: answers by the prompt, verdicts by the answer."""

import threading
from hashlib import sha256

from second_looks import PROBLEM, first
from verdicts import OneLook, refused

from agent.confirming import Beside
from agent.loop import Terms, solve
from agent.protocols import Executor, Pacing, Provider, Transcript
from agent.records import Attempt, Candidate, Completion, Evaluation, Event, Problem, Prompt, Usage
from agent.search.budget import Budget, Limits
from agent.store import Resume

KERNEL = "```python\nclass ModelNew:\n    ms = {}\n```"


def terms(search: str, rounds: int = 12, parallel: int = 4) -> Terms:
    return Terms.model_validate(
        {"rounds": rounds, "patience": 2, "gpu": "H200", "search": search, "samples": 4, "parallel": parallel}
    )


def number_of(prompt: Prompt) -> int:
    """The same for the same question, in every process."""
    return int(sha256(prompt.id.encode()).hexdigest()[:8], 16)


class Model:
    """Answers each question in its own way; one answer in sixteen holds no code."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = self._open = 0
        """Questions that were open at the same time."""
        self._lock = threading.Lock()

    def complete(self, prompt: Prompt) -> Completion:
        with self._lock:
            self.asked.append(prompt.id)
            self._open += 1
            self.most = max(self.most, self._open)
        try:
            number = number_of(prompt)
            text = "In words." if number % 16 == 0 else KERNEL.format((number % 1000 + 1) / 100)
            usage = Usage(input_tokens=100, output_tokens=50)
            return Completion(provider=self.name, model=None, text=text, usage=usage)
        finally:
            with self._lock:
                self._open -= 1


class Judge(OneLook):
    """Refuses every fourth time; the others are verified and as fast as they say."""

    name = "cuda"

    def __init__(self) -> None:
        self.judged: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.judged.append(candidate.id)
        ms = float(candidate.source.split()[-1])
        return refused(1).evaluation if int(ms * 100) % 4 == 0 else confirmed(ms)


def confirmed(ms: float) -> Evaluation:
    found = first(ms)
    return found.model_copy(update={"scope": found.scope.model_copy(update={"confirmed": None})})


class Events(list[Event]):
    """A transcript in memory, which a budget hears."""

    def __init__(self, budget: Budget | None = None) -> None:
        super().__init__()
        self._budget = budget

    def append(self, event: Event) -> None:
        super().append(event.model_copy(update={"seq": len(self)}))
        if self._budget is not None:
            self._budget.take(event)


def searched(
    wanted: Terms, provider: Provider, executor: Executor, transcript: Transcript, *,
    budget: Budget | None = None, resume: Resume | None = None,
) -> Attempt | None:  # fmt: skip
    budget = budget or Budget(Limits(), parallel=wanted.parallel)
    if resume is None:
        return solve(
            PROBLEM, provider, executor, transcript, wanted, Pacing(Beside(PROBLEM, executor), budget)
        )
    pacing = Pacing(resume.confirmer(Beside(PROBLEM, executor)), resume.pace(budget))
    return solve(
        PROBLEM, resume.provider(provider), resume.executor(executor), resume.transcript(transcript), wanted,
        pacing,
    )  # fmt: skip
