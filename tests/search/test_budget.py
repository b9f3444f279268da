"""What is set aside, what counts as spent, and when a question is not asked."""

import pytest
from search.searching import Events, Judge, Model, searched, terms

from agent.api.limits import ANSWER_TOKENS, bounded, budget_for, policy_for
from agent.config import Settings
from agent.errors import BudgetExceeded, UsageError
from agent.records import (
    Completed,
    Completion,
    Event,
    Message,
    Prompt,
    Prompted,
    RetryScheduled,
    RunFinished,
    Usage,
)
from agent.search.budget import MESSAGE_TOKENS, Budget, Limits, Price, Tariff

PROMPT = Prompt(template="generate", messages=(Message(role="user", content="x" * 984),))
"""1000 tokens at most."""
TARIFF = Tariff(answer_tokens=9_000, prices={"m": Price(input=1, output=10)})
"""A question takes 10,000 tokens and $0.091 at most."""


def asked(number: int) -> Prompted:
    return Prompted(round=number, prompt=PROMPT)


def answered(number: int, usage: Usage, cost: float | None = None) -> Completed:
    completion = Completion(provider="p", model="m", text="", usage=usage, cost_usd=cost)
    return Completed(round=number, prompt_id=PROMPT.id, completion=TARIFF.priced(completion))


def budget(
    *before: Event, parallel: int = 9, limits: Limits | None = None, tokens: int | None = None,
    seconds: float | None = None,
) -> Budget:  # fmt: skip
    limits = limits or Limits(tokens=tokens, seconds=seconds)
    return Budget(limits, parallel=parallel, tariff=TARIFF, before=before)


def test_the_most_that_a_question_can_take() -> None:
    most = TARIFF.most(PROMPT)
    assert most.tokens == 10_000
    assert most.cost_usd == pytest.approx(0.091)
    wide = Prompt(template="generate", messages=(Message(role="user", content="é" * 10),))
    assert TARIFF.most(wide).tokens == 20 + MESSAGE_TOKENS + 9_000


@pytest.mark.parametrize("limits", [{"tokens": 25_000}, {"cost_usd": 0.2}])
def test_what_is_open_is_set_aside(limits: dict[str, float]) -> None:
    purse = budget(limits=Limits.model_validate(limits))
    for number in (1, 2):
        assert purse.begins(PROMPT, number - 1)
        purse.take(asked(number))
    assert not purse.begins(PROMPT, 2)
    assert purse.refused is not None
    purse.take(answered(1, Usage(input_tokens=300, output_tokens=100)))
    assert purse.refused is None
    assert purse.begins(PROMPT, 1)


def test_an_answer_without_a_count_took_the_most() -> None:
    purse = budget(
        asked(1), answered(1, Usage()), asked(2), answered(2, Usage(input_tokens=5, output_tokens=5))
    )
    assert purse.spent.tokens == 10_010
    assert purse.spent.cost_usd == pytest.approx(0.091 + 55e-6)


def test_the_cost_that_the_endpoint_reports_counts() -> None:
    purse = budget(asked(1), answered(1, Usage(input_tokens=5, output_tokens=5), cost=0.5))
    assert purse.spent.cost_usd == 0.5


def test_what_was_asked_by_a_killed_process_counts_before_it_is_asked_again() -> None:
    purse = budget(asked(1), asked(2), tokens=35_000)
    purse.asks_again(1)
    assert purse.spent.tokens == 10_000
    with pytest.raises(BudgetExceeded, match="35,000 tokens"):
        purse.asks_again(2)
    assert purse.refused is not None


def test_what_the_endpoint_never_answered_is_asked_again_for_nothing() -> None:
    failed = RunFinished(outcome="failed", best=None, reason="401")
    purse = budget(asked(1), failed, tokens=10_000)
    purse.asks_again(1)
    assert purse.spent.tokens == 0


@pytest.mark.parametrize(("begun", "spent"), [(True, 10_000), (False, 0)])
def test_an_answer_that_broke_off_may_have_been_paid_for(begun: bool, spent: int) -> None:
    purse = budget(tokens=20_000)
    purse.take(asked(1))
    purse.take(RetryScheduled(reason="drop", wait_seconds=0, tries=1, round=1, begun=begun))
    purse.asks_again(1)
    assert purse.spent.tokens == spent


def test_rounds_that_are_open_are_no_more_than_allowed() -> None:
    purse = budget(parallel=2)
    assert purse.begins(PROMPT, 1)
    assert not purse.begins(PROMPT, 2)
    assert purse.refused is None


def test_time_is_that_of_all_processes() -> None:
    assert not budget(asked(1).model_copy(update={"seconds": 100.0}), seconds=99).begins(PROMPT, 0)
    assert budget(asked(1).model_copy(update={"seconds": 100.0}), seconds=10_000).begins(PROMPT, 0)


def test_time_of_the_gpu_is_kept_for_confirming() -> None:
    def purse(seconds: float) -> Budget:
        return Budget(Limits(gpu_seconds=seconds), on_gpu=True)

    assert not purse(179).begins(PROMPT, 0)
    assert purse(181).begins(PROMPT, 0)


def test_a_search_ends_before_its_tokens_do() -> None:
    wanted = terms("beam", rounds=50)
    purse = Budget(Limits(tokens=60_000), parallel=4, tariff=Tariff(answer_tokens=10_000))
    model, events = Model(), Events(purse)
    searched(wanted, model, Judge(), events, budget=purse)
    assert 1 < len(model.asked) < 50
    assert purse.spent.tokens == 150 * len(model.asked)


@pytest.mark.parametrize(
    ("changes", "executor", "words"),
    [({"max_cost": 1.0}, "emulator", "the price of m"),
     ({"max_gpu_time": 9.0}, "emulator", "on the emulator"),
     ({"max_cost": 1.0, "prices": {"m": {"input": 1.0}}}, "cuda", "both input and output")],
)  # fmt: skip
def test_a_limit_that_could_not_be_kept_is_refused(
    changes: dict[str, object], executor: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        budget_for(Settings.model_validate({"model": "m", **changes}), "openai_compat", executor)


def test_an_answer_has_a_longest_length_where_a_limit_needs_one() -> None:
    assert bounded(Settings()).max_output_tokens is None
    assert bounded(Settings(max_tokens=9)).max_output_tokens == ANSWER_TOKENS
    assert bounded(Settings(max_cost=9, max_output_tokens=5)).max_output_tokens == 5


def test_what_costs_nothing_needs_no_price() -> None:
    purse = budget_for(Settings(max_cost=0.01), "catalogue", "emulator")
    assert purse.begins(PROMPT, 0)


def test_the_dearest_of_several_models_bounds_a_question_and_each_costs_its_own() -> None:
    both = Tariff(answer_tokens=1_000, prices={"a": Price(input=0, output=1), "b": Price(input=0, output=9)})
    assert both.most(PROMPT).cost_usd == pytest.approx(0.009)
    usage = Usage(input_tokens=5, output_tokens=1_000)
    answer = Completion(provider="p", model="x", asked="a", text="", usage=usage)
    assert both.priced(answer).cost_usd == pytest.approx(0.001)


@pytest.mark.parametrize(
    ("chosen", "provider", "executor", "policy"),
    [(None, "openai_compat", "cuda", "beam"), (None, "openai_compat", "emulator", "line"),
     (None, "replay:x", "cuda", "line"), ("evolve", "openai_compat", "emulator", "evolve")],
)  # fmt: skip
def test_the_policy_by_default(chosen: str | None, provider: str, executor: str, policy: str) -> None:
    assert policy_for(Settings.model_validate({"search": chosen}), provider, executor) == policy
