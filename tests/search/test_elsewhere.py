"""A run carried between a machine that asks and one that judges."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import pytest
from search.searching import Events, Judge, Model, searched, terms
from second_looks import first
from verdicts import OneLook

from agent import loop
from agent.errors import AwaitingAnswers, AwaitingGpu
from agent.records import (
    Candidate,
    Completed,
    Completion,
    Evaluated,
    Evaluation,
    Move,
    Problem,
    Prompt,
    Prompted,
    ReplyRejected,
)
from agent.search.shape import Shape
from agent.search.tree import Tree
from agent.store import Log, Resume

POLICIES = ("line", "beam", "evolve")


class Box(Model):
    """Answers what it is allowed to, and nobody waits for the rest."""

    def __init__(self, answered: Iterable[str] = ()) -> None:
        super().__init__()
        self.answered, self.open = set(answered), set[str]()

    def complete(self, prompt: Prompt) -> Completion:
        if prompt.id not in self.answered:
            self.open.add(prompt.id)
            raise AwaitingAnswers("an answer is missing")
        return super().complete(prompt)


class NoGpu(OneLook):
    name = "cuda"

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        raise AwaitingGpu("waits for a GPU")


class FirstLooks(Judge):
    """A machine that makes no second look."""

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        return first(float(candidate.source.split()[-1]))

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        raise AwaitingGpu("the best waits to be confirmed")


class Away(FirstLooks):
    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        raise AwaitingGpu("waits for a GPU")


class Same(Model):
    def complete(self, prompt: Prompt) -> Completion:
        return Completion(provider="box", model=None, text="```python\nclass ModelNew:\n    ms = 0.5\n```")


@pytest.mark.parametrize("search", POLICIES)
def test_a_run_goes_to_and_fro_and_nothing_is_asked_or_judged_twice(search: str) -> None:
    written, answered, judge = Events(), set[str](), Judge()
    for _ in range(60):
        box, here = Box(answered), Events()
        try:
            resume = Resume(Log(tuple(written)))
            away = searched(terms(search, rounds=8), box, NoGpu(), here, resume=resume)
        except (AwaitingAnswers, AwaitingGpu):
            written.extend(here)
        else:
            assert away is not None
            break
        there = Events()
        with suppress(AwaitingAnswers):
            searched(terms(search, rounds=8), box, judge, there, resume=Resume(Log(tuple(written))))
        written.extend(there)
        answered |= set(sorted(box.open - answered)[:2])
    else:
        pytest.fail("the run never ended")
    asked = [event.prompt.id for event in written if isinstance(event, Prompted)]
    assert len(asked) == len(set(asked))
    assert sorted(asked) == sorted(event.prompt_id for event in written if isinstance(event, Completed))
    verdicts = (event.attempt.candidate.id for event in written if isinstance(event, Evaluated))
    assert Counter(judge.judged) == Counter(verdicts)


def test_the_same_answer_twice_is_judged_once_where_the_gpu_is() -> None:
    here = Events()
    with pytest.raises(AwaitingGpu):
        searched(terms("beam", rounds=4), Same(), NoGpu(), here)
    assert [event.kind for event in here].count("completed") == 4
    assert len([event for event in here if isinstance(event, ReplyRejected)]) == 3
    judge, there = Judge(), Events()
    searched(terms("beam", rounds=4), Same(), judge, there, resume=Resume(Log(tuple(here))))
    assert len(judge.judged) == 1


def test_answers_are_taken_in_where_the_best_cannot_be_confirmed() -> None:
    written, wanted = Events(), terms("beam", rounds=8)
    box = Box()
    for judge in (FirstLooks(), FirstLooks()):
        box, there = Box(box.open), Events()
        with suppress(AwaitingAnswers, AwaitingGpu):
            searched(wanted, box, judge, there, resume=Resume(Log(tuple(written))))
        written.extend(there)
    assert any(isinstance(event, Evaluated) for event in written)
    assert box.open, "questions that nobody has answered so far"
    here = Events()
    with pytest.raises(AwaitingGpu):
        searched(wanted, Box(box.open), Away(), here, resume=Resume(Log(tuple(written))))
    assert box.open <= {event.prompt_id for event in here if isinstance(event, Completed)}


class Twice(Model):
    """Nobody answers; a policy that would ask the same again must not."""

    def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt.id)
        raise AwaitingAnswers("missing")


def test_a_question_that_is_awaited_is_not_asked_again_under_another_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def insisting(tree: Tree, shape: Shape) -> Move | None:
        return Move(idea="the same") if len(tree.nodes) < 8 else None

    monkeypatch.setattr(loop, "POLICIES", {"beam": insisting})
    for parallel in (1, 4):
        provider = Twice()
        with pytest.raises(AwaitingAnswers):
            searched(terms("beam", parallel=parallel), provider, Judge(), Events())
        assert len(provider.asked) == 1
