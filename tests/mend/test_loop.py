"""The loop judges a mend as an attempt of its own, and the next prompt shows both."""

import pytest
from mend.candidates import DECLARED, HEAD, MENDABLE, RIGHT, changed
from pydantic import ValidationError
from transcripts import PROBLEM
from verdicts import OneLook, refused, verified

from agent import loop, mend, prompts
from agent.feedback import on_evaluation
from agent.prompts import Situation
from agent.providers.scripted import Scripted
from agent.records import (
    Attempt,
    Candidate,
    Correctness,
    Evaluated,
    Evaluation,
    Event,
    Finding,
    Problem,
    Prompted,
    Scope,
    Status,
)
from agent.store import Resume
from agent.store.log import Log

UNDECLARED = MENDABLE["no declaration"][1]
MISSING = Finding(kind="missing-declaration", message="`scale_cuda` is listed in `functions`, not declared.")
WRONG = Finding(kind="wrong-values", message="Every element is wrong.")
EMULATOR = Scope(executor="emulator")


class Memory(list[Event]):
    """A transcript in memory."""

    def attempts(self) -> list[Attempt]:
        return [event.attempt for event in self if isinstance(event, Evaluated)]

    def prompts(self) -> list[str]:
        return [event.prompt.messages[1].content for event in self if isinstance(event, Prompted)]


class Judge(OneLook):
    """Refuses what lacks the declaration; what has it is verified, or wrong where `wrong` says so."""

    name = "emulator"

    def __init__(self, *, wrong: bool = False) -> None:
        self.wrong = wrong
        self.judged: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.judged.append(candidate.id)
        if DECLARED[1:-1] not in candidate.source:
            return Evaluation(status=Status.BUILD_ERROR, stage="build", scope=EMULATOR, findings=(MISSING,))
        if self.wrong:
            return Evaluation(status=Status.INCORRECT, stage="verify", scope=EMULATOR, findings=(WRONG,))
        exact = Correctness(draws=3, max_abs_err=0, max_rel_err=0, error_budget_ratio=0)
        return Evaluation(status=Status.VERIFIED, stage="verify", scope=EMULATOR, correctness=exact)


def answers(*sources: str) -> Scripted:
    return Scripted([f"```python\n{source}```\n" for source in sources])


def terms(rounds: int, *, mends: bool = True) -> loop.Terms:
    return loop.Terms(rounds=rounds, patience=2, gpu="h200", mends=mends)


def test_a_mend_is_a_child_attempt_and_its_parent_keeps_its_verdict() -> None:
    transcript, judge = Memory(), Judge()
    best = loop.solve(PROBLEM, answers(UNDECLARED), judge, transcript, terms(1))
    answer, child = transcript.attempts()
    assert (answer.number, answer.candidate.origin, answer.evaluation.status) == (
        1,
        "model",
        Status.BUILD_ERROR,
    )
    assert (child.number, child.candidate.origin, child.evaluation.status) == (2, "mend", Status.VERIFIED)
    assert child.candidate.parent == answer.candidate.id
    assert child.candidate.note == "mended: declared scale_cuda in cpp_sources"
    assert best == child


def test_without_mends_the_model_is_asked() -> None:
    transcript = Memory()
    best = loop.solve(PROBLEM, answers(UNDECLARED, RIGHT), Judge(), transcript, terms(2, mends=False))
    assert [attempt.candidate.origin for attempt in transcript.attempts()] == ["model", "model"]
    assert best is not None
    assert best.number == 2


def test_the_next_prompt_shows_the_answer_and_its_mend() -> None:
    transcript = Memory()
    loop.solve(PROBLEM, answers(UNDECLARED, RIGHT), Judge(wrong=True), transcript, terms(2))
    shown = transcript.prompts()[1]
    assert "Your last answer, mended: attempt 2" in shown
    assert "Attempt 1, your answer as it came, was judged build_error" in shown
    assert MISSING.message in shown
    assert "mended: declared scale_cuda in cpp_sources" in shown
    assert shown.index("What was mended in it") < shown.index("What was found in attempt 2")
    # The code that is shown is the mended one, once.
    assert shown.count(HEAD) == 1
    assert DECLARED[1:-1] in shown


def test_a_run_with_mends_is_resumed_without_judging_again() -> None:
    first = Memory()
    loop.solve(PROBLEM, answers(UNDECLARED), Judge(wrong=True), first, terms(1))
    numbered = tuple(event.model_copy(update={"seq": n}) for n, event in enumerate(first))
    stored, judge, more = Resume(Log(events=numbered)), Judge(), Memory()
    loop.solve(
        PROBLEM, stored.provider(answers(RIGHT)), stored.executor(judge), stored.transcript(more), terms(2)
    )
    assert judge.judged == [Candidate(problem=PROBLEM.name, source=RIGHT).id]
    assert [attempt.number for attempt in more.attempts()] == [3]


def test_what_is_verified_is_not_mended() -> None:
    assert (
        mend.fix(
            verified(1, source=UNDECLARED, warnings=(MISSING.model_copy(update={"severity": "warning"}),))
        )
        is None
    )


def test_what_only_warns_is_not_mended() -> None:
    warning = MISSING.model_copy(update={"severity": "warning"})
    assert mend.fix(refused(1, WRONG, warning, source=UNDECLARED)) is None


def test_mends_end_where_nothing_more_is_known() -> None:
    """A judge that is never content: each mend is tried once, and a text is never judged twice."""
    source = changed((DECLARED, '""'), (HEAD, 'extern "C" ' + HEAD))
    extern_c = Finding(kind="extern-c", message="linkage")
    judged: list[str] = []

    def judge(candidate: Candidate) -> Attempt:
        judged.append(candidate.source)
        return refused(len(judged) + 1, MISSING, extern_c, source=candidate.source, status=Status.BUILD_ERROR)

    made = mend.line(refused(1, MISSING, source=source, status=Status.BUILD_ERROR), judge)
    assert len(made) == len(judged) + 1 <= mend.MOST_IN_A_ROW + 1
    assert len(set(judged)) == len(judged)
    assert 'extern "C"' not in judged[-1]


def test_the_diff_names_both_attempts() -> None:
    parent = refused(1, MISSING, source=UNDECLARED, status=Status.BUILD_ERROR)
    child = mend.fix(parent)
    assert child is not None
    text = mend.difference(parent, refused(2, WRONG, source=child.source))
    assert text.startswith("--- attempt 1\n+++ attempt 2\n")
    assert "+torch::Tensor scale_cuda(torch::Tensor x, double factor);" in text


def test_a_situation_refuses_a_mend_of_another_attempt() -> None:
    last = refused(2, WRONG, source=RIGHT)
    with pytest.raises(ValidationError, match="parent of the next"):
        Situation(last=last, mended=(refused(1, MISSING),), feedback=on_evaluation(last), gpu="h200")


def test_a_prompt_after_a_verified_mend_says_what_was_mended() -> None:
    parent = refused(1, MISSING, source=UNDECLARED, status=Status.BUILD_ERROR)
    child = mend.fix(parent)
    assert child is not None
    best = verified(2, 1.5, source=child.source).model_copy(update={"candidate": child})
    situation = Situation(last=best, best=best, mended=(parent,), feedback=on_evaluation(best), gpu="h200")
    assert "What was mended in it" in prompts.render(PROBLEM, situation).messages[1].content
