"""Tests of the state that `solve()` keeps between rounds: the ledger and the judged answers."""

import pytest
from verdicts import OneLook, verified

from agent import mend
from agent.errors import EnvironmentFault
from agent.loop import Terms, solve
from agent.providers.scripted import Scripted
from agent.records import (
    Attempt,
    Candidate,
    Evaluated,
    Evaluation,
    Event,
    Finding,
    Problem,
    Prompted,
    ReplyRejected,
    Scope,
    Status,
    Trace,
    Unjudged,
)

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="p", source="class Model: ...\n", trace=TRACE)
FILE = """```python
class ModelNew:
    factor = {factor}
```"""


class Judge(OneLook):
    """Executor that finds the same fault in every candidate except `factor = 0`."""

    name = "fake"

    def __init__(self) -> None:
        self.judged: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.judged.append(candidate.source)
        if "factor = 0" in candidate.source:
            return verified(1).evaluation
        found = Finding(kind="wrong-divisor", message=f"Off by a factor of {len(self.judged)}.")
        scope = Scope(executor="emulator")
        return Evaluation(status=Status.INCORRECT, stage="verify", scope=scope, findings=(found,))


class Events:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def append(self, event: Event) -> None:
        self.seen.append(event)

    def prompts(self) -> list[str]:
        return [event.prompt.messages[1].content for event in self.seen if isinstance(event, Prompted)]


def run(*factors: int, judge: Judge | None = None) -> tuple[Attempt | None, Judge, Events]:
    judge, events = judge or Judge(), Events()
    provider = Scripted([FILE.format(factor=factor) for factor in factors])
    best = solve(PROBLEM, provider, judge, events, Terms(rounds=len(factors), patience=2, gpu="H200"))
    return best, judge, events


def test_the_same_answer_is_not_judged_twice() -> None:
    best, judge, events = run(1, 1, 0)
    assert best is not None
    assert len(judge.judged) == 2
    rejected = [event for event in events.seen if isinstance(event, ReplyRejected)]
    assert [event.feedback.kind for event in rejected] == ["repeated-answer"]
    assert "the code of attempt 1 again" in events.prompts()[2]


def test_earlier_attempts_are_remembered_from_the_third_prompt_on() -> None:
    _, _, events = run(1, 2, 3)
    first, second, third = events.prompts()
    assert "What was tried so far" not in first + second
    assert (
        "attempt 2, against attempt 1 (+1 -1 lines): `factor = 1` became `factor = 2`; the same finding again"
        in third
    )


@pytest.mark.parametrize(
    ("rounds", "words", "code_shown"),
    [(3, "The same finding a second time", True), (4, "The same finding a third time", True),
     (5, "The same finding 4 times", False)],
)  # fmt: skip
def test_a_fault_that_stays_changes_the_task(rounds: int, words: str, code_shown: bool) -> None:
    _, _, events = run(*range(1, rounds + 1))
    prompt = events.prompts()[-1]
    assert words in prompt
    assert (f"    factor = {rounds - 1}\n" in prompt) is code_shown


class Failing(Judge):
    """Executor that cannot judge `factor = 9`."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        if "factor = 9" in candidate.source:
            self.judged.append(candidate.source)
            raise EnvironmentFault("the oracle failed: KeyError: 'x'", "Traceback of the oracle")
        return super().evaluate(problem, candidate)


def test_a_candidate_that_nobody_could_judge_is_told_to_nobody() -> None:
    best, judge, events = run(1, 9, 2, 0, judge=Failing())
    assert best is not None
    assert (best.number, len(judge.judged)) == (4, 4)
    (unjudged,) = [event for event in events.seen if isinstance(event, Unjudged)]
    assert (unjudged.round, unjudged.number) == (2, 2)
    assert "factor = 9" in unjudged.candidate.source
    assert (unjudged.reason, unjudged.details) == (
        "the oracle failed: KeyError: 'x'",
        "Traceback of the oracle",
    )
    prompts = events.prompts()
    assert prompts[1] == prompts[2], "the question after it is the question before it"
    assert "factor = 9" not in "".join(prompts)
    assert "attempt 3, against attempt 1" in prompts[3]


class Timed(Failing):
    """Executor that times `factor = 0`, so that patience decides when the run ends."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        evaluation = super().evaluate(problem, candidate)
        return verified(1, 1.0).evaluation if evaluation.status is Status.VERIFIED else evaluation


def test_rounds_that_nobody_could_judge_do_not_use_up_patience() -> None:
    _, judge, _ = run(0, 9, 9, 2, 3, 4, judge=Timed())
    assert [source.split()[-1] for source in judge.judged] == ["0", "9", "9", "2", "3"]


def test_three_in_a_row_end_the_run() -> None:
    events = Events()
    provider = Scripted([FILE.format(factor=factor) for factor in (1, 9, 9, 9, 0)])
    terms = Terms(rounds=5, patience=2, gpu="H200")
    with pytest.raises(EnvironmentFault, match="the oracle failed"):
        solve(PROBLEM, provider, Failing(), events, terms)
    assert [event.kind for event in events.seen if event.kind in ("evaluated", "unjudged")] == [
        "evaluated", "unjudged", "unjudged",
    ]  # fmt: skip


def test_a_mend_that_nobody_could_judge_leaves_its_parent() -> None:
    first = verified(1)
    parent = first.model_copy(update={"evaluation": Judge().evaluate(PROBLEM, first.candidate)})
    child = parent.candidate.model_copy(update={"source": "other"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mend, "fix", lambda attempt: child)
        assert mend.line(parent, lambda candidate: None) == (parent,)


def test_the_attempts_are_numbered_as_they_were_judged() -> None:
    _, _, events = run(1, 1, 2)
    numbers = [event.attempt.number for event in events.seen if isinstance(event, Evaluated)]
    assert numbers == [1, 2]
