"""Tests of the choice among several models and of the yield of their answers."""

from typing import Any

import pytest
from verdicts import refused, verified

from agent import yields
from agent.records import Attempt, Completed, Completion, Evaluated, Event, Prompt, SecondLook, Usage
from agent.yields import Yield


def answer(number: int, model: str | None, *, cost: float | None = None, tokens: int | None = None) -> Event:
    usage = Usage(input_tokens=tokens, output_tokens=tokens)
    completion = Completion(provider="x", model=None, text="", asked=model, cost_usd=cost, usage=usage)
    return Completed(round=number, prompt_id="p", completion=completion)


def judged(number: int, attempt: Attempt) -> Event:
    return Evaluated(round=number, attempt=attempt)


def test_each_is_asked_once_in_their_order_and_then_the_better_for_its_cost() -> None:
    known: dict[str, Yield] = {}
    assert yields.choose(("a", "b"), known) == "a"
    known["a"] = Yield(asked=1, reward=0.6, cost=1)
    assert yields.choose(("a", "b"), known) == "b"
    known["b"] = Yield(asked=1, reward=0.6, cost=3)
    assert yields.choose(("a", "b"), known) == "a"
    assert yields.choose(("b", "a"), known) == "a"


def test_equal_models_are_asked_in_turns_and_none_is_given_up() -> None:
    known = {name: Yield() for name in "ab"}
    asked = []
    for _ in range(40):
        model = yields.choose(("a", "b"), known)
        asked.append(model)
        own = known[model]
        reward = own.reward + (0.9 if model == "a" else 0.1)
        known[model] = Yield(asked=own.asked + 1, reward=reward, cost=own.cost + 1)
    assert asked[:2] == ["a", "b"]
    assert asked.count("a") > asked.count("b") > 4


def test_a_dear_model_is_asked_where_only_it_yields() -> None:
    known = {"cheap": Yield(asked=200, reward=0, cost=200), "dear": Yield(asked=20, reward=18, cost=60)}
    assert yields.choose(("cheap", "dear"), known) == "dear"


def test_without_a_cost_nothing_is_divided_by_zero() -> None:
    known = {"a": Yield(asked=1, cost=0), "b": Yield(asked=1, cost=0)}
    assert yields.choose(("a", "b"), known) == "a"


def test_rewards_are_of_the_round_s_best_attempt_and_of_what_it_saves() -> None:
    events = [
        answer(1, "a"), judged(1, refused(1)),
        answer(2, "b"), judged(2, refused(2)), judged(2, verified(3, 4.0)),
        answer(3, "a"), judged(3, verified(4, 1.0)),
        answer(4, "b"), judged(4, verified(5, 2.0)),
        answer(5, "b"),
    ]  # fmt: skip
    first = verified(3, 4.0).evaluation.measurement
    assert first is not None
    assert first.speedup is not None
    saved = max(0.0, 1 - 1 / first.speedup)
    found = yields.gathered(events)
    assert found["a"] == Yield(asked=2, reward=0.5 + 0.5 * 0.75, cost=2)
    assert found["b"].asked == 3
    assert found["b"].reward == pytest.approx(0.5 + 0.5 * saved + 0.5)


def test_what_a_second_look_refuses_is_worth_nothing() -> None:
    events = [answer(1, "a"), judged(1, verified(1, 4.0))]
    assert yields.gathered(events)["a"].reward > 0
    withdrawn = SecondLook(round=1, number=1, evaluation=refused(1).evaluation)
    assert yields.gathered([*events, withdrawn])["a"].reward == 0


@pytest.mark.parametrize(
    ("known", "costs"),
    [
        ([{"cost": 0.5, "tokens": 10}, {"cost": 0.25, "tokens": 10}], [0.5, 0.25]),
        ([{"cost": 0.5, "tokens": 10}, {"tokens": 30}], [20, 60]),
        ([{"cost": 0.5, "tokens": 10}, {}], [1, 1]),
    ],
)
def test_cost_is_in_the_best_unit_that_is_known_of_all(
    known: list[dict[str, Any]], costs: list[float]
) -> None:
    events = [answer(number, f"m{number}", **facts) for number, facts in enumerate(known)]
    assert [own.cost for own in yields.gathered(events).values()] == costs


def test_answers_of_a_single_model_are_nobody_s() -> None:
    assert yields.gathered([answer(1, None), judged(1, verified(1, 4.0))]) == {}


def test_prompts_do_not_name_the_model() -> None:
    """Require that a stored answer is found by its prompt, whichever model was asked."""
    assert "model" not in Prompt.model_fields


def test_a_withdrawn_best_is_no_mark_for_later_answers() -> None:
    refusal = refused(1).evaluation
    withdrawn = SecondLook(round=1, number=1, evaluation=refusal)
    events = [
        answer(1, "a"), judged(1, verified(1, 1.0)), withdrawn,
        answer(2, "b"), judged(2, verified(2, 2.0)),
    ]  # fmt: skip
    alone = [answer(2, "b"), judged(2, verified(2, 2.0))]
    assert yields.gathered(events)["b"].reward == yields.gathered(alone)["b"].reward
