"""Candidates that a fault of ours keeps from a verdict: judged once more, and their rounds given back."""

import re
from collections.abc import Sequence

import pytest
from search.searching import Events, Judge, Model, searched, terms

from agent.errors import EnvironmentFault, PassingFault, ProblemError, Unprepared
from agent.records import (
    Candidate,
    Completed,
    Completion,
    Evaluated,
    Evaluation,
    Event,
    Move,
    Problem,
    Prompt,
    Prompted,
    Unjudged,
)
from agent.search.budget import Budget, Limits
from agent.store import Log, Resume

POLICIES = ("line", "beam", "evolve")


class Faulty(Judge):
    """Fails at some of its judgements, counted from 1: with a fault that may pass, or with another."""

    def __init__(
        self, *, passing: tuple[int, ...] = (), lasting: tuple[int, ...] = (), done: int = 0
    ) -> None:
        super().__init__()
        self.passing, self.lasting, self.done = passing, lasting, done
        self.asked: list[str] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.asked.append(candidate.id)
        number = self.done + len(self.asked)
        if number in self.passing:
            raise PassingFault("there is too little memory", "Traceback")
        if number in self.lasting:
            raise EnvironmentFault("the oracle failed: KeyError: 'x'")
        return super().evaluate(problem, candidate)


class Forgetful(Model):
    """Answers as if attempts had no numbers."""

    def complete(self, prompt: Prompt) -> Completion:
        messages = tuple(
            message.model_copy(
                update={"content": re.sub(r"(?i)(attempts? )[\d, and]+", r"\1", message.content)}
            )
            for message in prompt.messages
        )
        return super().complete(prompt.model_copy(update={"messages": messages}))


def unjudged(events: Events) -> list[str]:
    return [event.then for event in events if isinstance(event, Unjudged)]


def asked(events: Events) -> list[str]:
    return [event.prompt.id for event in events if isinstance(event, Prompted)]


def moves(events: Events, lost: int | None = None) -> list[tuple[str, Move]]:
    """Return the moves of all rounds, numbered as if one of them had never been."""

    def place(number: int | None) -> int | None:
        return number - 1 if lost is not None and number is not None and number > lost else number

    return [
        (
            e.prompt.template,
            e.move.model_copy(update={"after": place(e.move.after), "beside": place(e.move.beside)}),
        )
        for e in events
        if isinstance(e, Prompted) and e.round != lost
    ]


def test_a_fault_that_has_passed_costs_no_question() -> None:
    events, model, judge = Events(), Model(), Faulty(passing=(1,))
    searched(terms("line", rounds=1, parallel=1), model, judge, events)
    assert unjudged(events) == ["again"]
    assert len(model.asked) == 1
    assert judge.asked[0] == judge.asked[1]
    judged = next(event for event in events if isinstance(event, Evaluated))
    assert (judged.round, judged.attempt.number, judged.attempt.candidate.id) == (1, 2, judge.asked[0])


def test_a_candidate_is_judged_once_more_and_not_for_ever() -> None:
    events, judge = Events(), Faulty(passing=(1, 2))
    searched(terms("line", rounds=1, parallel=1), Model(), judge, events)
    assert unjudged(events) == ["again", "unspent"]
    assert len(set(asked(events))) == 1, "the same question again"
    assert len(asked(events)) == 2
    assert [event.round for event in events if isinstance(event, Evaluated)] == [2]


@pytest.mark.parametrize("search", POLICIES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_search_is_as_if_the_round_had_never_been(search: str, number: int) -> None:
    plain, faulty = Events(), Events()
    searched(terms(search, rounds=7, parallel=1), Forgetful(), Judge(), plain)
    judge = Faulty(lasting=(number,))
    searched(terms(search, rounds=7, parallel=1), Forgetful(), judge, faulty)
    assert unjudged(faulty) == ["unspent"]
    lost = next(event.round for event in faulty if isinstance(event, Unjudged))
    assert asked(faulty)[lost - 1] == asked(faulty)[lost], "the same question again"
    assert moves(faulty, lost) == moves(plain)


@pytest.mark.parametrize("faults", [(1, 2, 3), (2, 3, 4)])
@pytest.mark.parametrize("kind", ["passing", "lasting"])
def test_three_in_a_row_end_a_run_that_can_be_resumed(faults: tuple[int, ...], kind: str) -> None:
    events = Events()
    judge = Faulty(passing=faults) if kind == "passing" else Faulty(lasting=faults)
    with pytest.raises(EnvironmentFault):
        searched(terms("line", rounds=3, parallel=1), Model(), judge, events)
    assert len(unjudged(events)) == 2
    # Whoever resumes judges what came third, and asks nothing for it.
    written, model = Events(), Model()
    searched(terms("line", rounds=3, parallel=1), model, Judge(), written, resume=Resume(Log(tuple(events))))
    assert isinstance(written[0], Evaluated)


@pytest.mark.parametrize("search", POLICIES)
def test_a_run_stopped_anywhere_goes_on_as_it_would_have(search: str) -> None:
    def faulty(done: int = 0) -> Faulty:
        return Faulty(passing=(2, 5, 6), lasting=(3,), done=done)

    plan, whole = terms(search, rounds=7, parallel=1), Events()
    searched(plan, Model(), faulty(), whole)
    assert unjudged(whole).count("again") == 2
    for known in range(len(whole) + 1):
        before = tuple(whole[:known])
        done = sum(isinstance(event, Evaluated | Unjudged) for event in before)
        model, judge, written = Model(), faulty(done), Events()
        searched(plan, model, judge, written, resume=Resume(Log(before)))
        assert shape([*before, *written]) == shape(whole)
        assert len(model.asked) == sum(isinstance(event, Completed) for event in whole[known:])


def shape(events: Sequence[Event]) -> list[object]:
    """Return the events as written, without their times."""
    bare = {"seconds": None, "seq": 0}
    return [
        (event.round, event.prompt.id, event.move) if isinstance(event, Prompted)
        else event.model_copy(update=bare) if isinstance(event, Evaluated | Unjudged)
        else event.kind
        for event in events
    ]  # fmt: skip


class Earlier(Events):
    """A transcript as versions before 7 wrote it: rounds without a verdict counted."""

    def append(self, event: Event) -> Event:  # type: ignore[override]
        if isinstance(event, Unjudged):
            event = event.model_copy(update={"then": "spent"})
        super().append(event)
        return event


@pytest.mark.parametrize("search", POLICIES)
def test_a_run_of_an_earlier_version_keeps_the_rounds_it_lost(search: str) -> None:
    earlier, plan = Earlier(), terms(search, rounds=6, parallel=1)
    searched(plan, Model(), Faulty(passing=(1, 3)), earlier)
    assert unjudged(earlier) == ["spent", "spent"]
    for known in range(len(earlier) + 1):
        model, written = Model(), Events()
        searched(plan, model, Judge(), written, resume=Resume(Log(tuple(earlier[:known]))))
        assert len(model.asked) == sum(isinstance(event, Completed) for event in written)


def test_what_is_not_spent_is_not_counted_and_its_tokens_are() -> None:
    budget = Budget(Limits())
    events = Events(budget)
    searched(terms("line", rounds=2, parallel=1), Model(), Faulty(lasting=(1,)), events, budget=budget)
    rounds = len(asked(events))
    assert (budget.spent.rounds, budget.spent.tokens) == (rounds - 1, 150 * rounds)


@pytest.mark.parametrize("error", [Unprepared("no probes here"), ProblemError("wrong answers would pass")])
def test_an_executor_that_can_judge_nothing_ends_the_run_at_once(error: EnvironmentFault) -> None:
    class Never(Judge):
        def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
            raise error

    events = Events()
    with pytest.raises(type(error), match=str(error)):
        searched(terms("line", rounds=3, parallel=1), Model(), Never(), events)
    assert [event.kind for event in events] == ["prompted", "completed"]
