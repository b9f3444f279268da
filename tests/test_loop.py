"""What `solve()` carries from round to round: the ledger, and the answers that are not judged again."""

import pytest
from verdicts import verified

from agent.loop import Plan, solve
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
)

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
PROBLEM = Problem(name="p", source="class Model: ...\n", trace=TRACE)
FILE = """```python
class ModelNew:
    factor = {factor}
```"""


class Judge:
    """Finds the same fault in everything but `factor = 0`."""

    name = "fake"

    def __init__(self) -> None:
        self.judged: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate, best: Evaluation | None = None) -> Evaluation:
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


def run(*factors: int) -> tuple[Attempt | None, Judge, Events]:
    judge, events = Judge(), Events()
    provider = Scripted([FILE.format(factor=factor) for factor in factors])
    best = solve(PROBLEM, provider, judge, events, Plan(rounds=len(factors), patience=2, gpu="H200"))
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


def test_the_attempts_are_numbered_as_they_were_judged() -> None:
    _, _, events = run(1, 1, 2)
    numbers = [event.attempt.number for event in events.seen if isinstance(event, Evaluated)]
    assert numbers == [1, 2]
