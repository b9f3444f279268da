"""Several rounds at a time: what is written, and that a run stopped anywhere goes on without asking twice."""

import threading
from collections import Counter

import pytest
from search.searching import Events, Judge, Model, searched, terms

from agent import ranking
from agent.errors import EndpointError
from agent.records import Completed, Completion, Evaluated, Prompt, Prompted
from agent.search.tree import Tree
from agent.store import Log, Resume

LONG_S = 60.0
POLICIES = ("line", "beam", "evolve")


def whole(search: str) -> Events:
    events = Events()
    searched(terms(search), Model(), Judge(), events)
    return events


@pytest.mark.parametrize("search", POLICIES)
def test_every_answer_and_verdict_is_written_once(search: str) -> None:
    events, provider, judge = Events(), Model(), Judge()
    best = searched(terms(search), provider, judge, events)
    asked = [event for event in events if isinstance(event, Prompted)]
    made = [event.attempt for event in events if isinstance(event, Evaluated)]
    assert sorted(provider.asked) == sorted(event.prompt.id for event in asked)
    assert [event.round for event in asked] == list(range(1, len(asked) + 1))
    assert [attempt.number for attempt in made] == list(range(1, len(made) + 1))
    assert Counter(judge.judged) == Counter(attempt.candidate.id for attempt in made)
    assert best == ranking.best_of(made, None)
    assert provider.most <= (1 if search == "line" else 4)


def test_rounds_are_open_at_the_same_time() -> None:
    together = threading.Barrier(4)

    class Meeting(Model):
        def complete(self, prompt: Prompt) -> Completion:
            if len(self.asked) < 4:
                together.wait(LONG_S)
            return super().complete(prompt)

    events = Events()
    searched(terms("beam", rounds=4), Meeting(), Judge(), events)
    assert [event.kind for event in events[:4]] == ["prompted"] * 4


@pytest.mark.parametrize("search", POLICIES)
def test_a_run_stopped_anywhere_asks_and_judges_nothing_twice(search: str) -> None:
    events = whole(search)
    for known in range(len(events) + 1):
        before = tuple(events[:known])
        provider, judge, written = Model(), Judge(), Events()
        searched(terms(search), provider, judge, written, resume=Resume(Log(before)))
        after = [*before, *written]
        answered = Counter(event.prompt_id for event in before if isinstance(event, Completed))
        every = Counter(event.prompt_id for event in after if isinstance(event, Completed))
        assert Counter(provider.asked) == every - answered
        known_verdicts = [event.attempt.candidate.id for event in before if isinstance(event, Evaluated)]
        verdicts = [event.attempt.candidate.id for event in after if isinstance(event, Evaluated)]
        assert Counter(judge.judged) == Counter(verdicts) - Counter(known_verdicts)
        again = Events()
        searched(terms(search), Model(), Judge(), again, resume=Resume(Log(tuple(after))))
        assert again == [], "what has come to its end has nothing to add"


@pytest.mark.parametrize("search", POLICIES)
def test_the_same_answers_in_the_same_order_are_the_same_search(search: str) -> None:
    first, second = (Events() for _ in range(2))
    for events in (first, second):
        searched(terms(search, parallel=1), Model(), Judge(), events)
    bare = {"seconds": None}
    assert [event.model_copy(update=bare) if isinstance(event, Evaluated) else event for event in first] == [
        event.model_copy(update=bare) if isinstance(event, Evaluated) else event for event in second
    ]


def test_a_resumed_run_may_have_another_number_of_rounds_open() -> None:
    events = whole("beam")
    before = tuple(events[: len(events) // 2])
    written = Events()
    searched(terms("beam", parallel=1), Model(), Judge(), written, resume=Resume(Log(before)))
    asked = [event.round for event in (*before, *written) if isinstance(event, Prompted)]
    assert asked == list(range(1, len(asked) + 1))


def test_what_was_asked_beside_a_question_that_failed_is_received() -> None:
    asked = threading.Semaphore(0)

    class Failing(Model):
        def complete(self, prompt: Prompt) -> Completion:
            if "Approach to try" not in prompt.messages[1].content:
                for _ in range(3):
                    assert asked.acquire(timeout=LONG_S)
                raise EndpointError("no quota")
            asked.release()
            return super().complete(prompt)

    events = Events()
    with pytest.raises(EndpointError, match="no quota"):
        searched(terms("beam", rounds=4), Failing(), Judge(), events)
    assert sorted(event.round for event in events if isinstance(event, Completed)) == [2, 3, 4]


def test_the_tree_is_made_of_the_events_alone() -> None:
    events = whole("evolve")
    tree = Tree()
    for event in events:
        tree = tree.take(event)
    best = ranking.best_of((event.attempt for event in events if isinstance(event, Evaluated)), None)
    assert tree.best == best
    assert [node.round for node in tree.line(len(tree.nodes))][-1] == len(tree.nodes)
