"""Yield of each model in a run for its cost, and the choice of the model to ask next.

The choice is a pure function of the events, so that a run resumes and replays with the same choices. The cost
of an answer is stored with the answer.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from math import inf, log, sqrt

from agent.records import Attempt, Completed, Evaluated, Event, Record, SecondLook, Status

VERIFIED = 0.5
"""Reward of a verified kernel. The fraction of time that the kernel saves raises it up to 1."""


class Yield(Record):
    """Requests, reward and cost of one model."""

    asked: int = 0
    """Number of prompts sent to the model, including open ones."""
    reward: float = 0.0
    """Sum of the rewards of the model's answers, each between 0 and 1."""
    cost: float = 0.0
    """Sum of the costs of the model's answers, in dollars if known for all, else in tokens, else in answers.
    """


def choose(models: Sequence[str], known: Mapping[str, Yield]) -> str:
    """Return the model to ask next: each once in order, then the most promising one for its cost.

    The promise is an upper confidence bound of the mean reward, divided by the mean cost. This is fractional
    KUBE (Tran-Thanh, Chapman, Rogers, Jennings: Knapsack based optimal policies for budget-limited
    multi-armed bandits, AAAI 2012).
    """
    for model in models:
        if known.get(model, Yield()).asked == 0:
            return model
    total = sum(known[model].asked for model in models)

    def promise(model: str) -> float:
        own = known[model]
        bound = own.reward / own.asked + sqrt(2 * log(total) / own.asked)
        return bound * own.asked / own.cost if own.cost > 0 else inf

    return max(models, key=promise)


def gathered(events: Iterable[Event]) -> dict[str, Yield]:
    """Return the yield of each model, by the model names in `Completed.completion.asked`."""
    answers: dict[int, Completed] = {}
    rewards: dict[int, dict[int, float]] = {}
    standing: dict[int, Attempt] = {}
    for event in events:
        if isinstance(event, Completed):
            answers[event.round] = event
        elif isinstance(event, Evaluated):
            reward = _reward(event.attempt, _fastest(standing.values()))
            rewards.setdefault(event.round, {})[event.attempt.number] = reward
            standing[event.attempt.number] = event.attempt
        elif isinstance(event, SecondLook) and event.evaluation.status is not Status.VERIFIED:
            rewards.setdefault(event.round, {})[event.number] = 0.0
            standing.pop(event.number, None)
    costs = _costs(answers)
    found: dict[str, Yield] = {}
    for number, answer in answers.items():
        model = answer.completion.asked
        if model is not None:
            own = found.get(model, Yield())
            found[model] = Yield(
                asked=own.asked + 1,
                reward=own.reward + max(rewards.get(number, {}).values(), default=0.0),
                cost=own.cost + costs[number],
            )
    return found


def _costs(answers: Mapping[int, Completed]) -> dict[int, float]:
    """Return the cost of each round in the best unit that is known for all: dollars, tokens or answers."""
    dollars = {number: answer.completion.cost_usd for number, answer in answers.items()}
    tokens = {number: _tokens(answer) for number, answer in answers.items()}
    for known in (dollars, tokens):
        if all(known.values()):
            return {number: float(value or 0) for number, value in known.items()}
    return dict.fromkeys(answers, 1.0)


def _tokens(answer: Completed) -> int | None:
    usage = answer.completion.usage
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens + usage.output_tokens


def _reward(attempt: Attempt, best: Attempt | None) -> float:
    """Return 0 for an unverified attempt, else `VERIFIED` plus a part for the fraction of time it saves.

    The comparison is with the best attempt before it, or with the baseline if there is none.
    """
    if attempt.evaluation.status is not Status.VERIFIED:
        return 0.0
    measured = attempt.evaluation.measurement
    if measured is None:
        return VERIFIED
    before = best.evaluation.measurement if best else None
    speedup = before.candidate_ms.p50 / measured.candidate_ms.p50 if before else measured.speedup
    return VERIFIED + (1 - VERIFIED) * max(0.0, 1 - 1 / speedup) if speedup else VERIFIED


def _fastest(attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the fastest verified attempt, or the first one if none was timed."""
    verified = [attempt for attempt in attempts if attempt.evaluation.status is Status.VERIFIED]

    def ms(attempt: Attempt) -> float:
        measured = attempt.evaluation.measurement
        return measured.candidate_ms.p50 if measured else math.inf

    return min(verified, key=ms, default=None)
