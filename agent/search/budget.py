"""Budget of a run: its limits, what it has used, and what is reserved for open questions.

A question is asked only if its maximum cost fits beside the maximum cost of all open questions. The bound
rests on the answer limit given to the endpoint and the size of the prompt in bytes. An answer that may have
been paid for but never arrived (a broken stream, a killed process) counts as its maximum. Unknown usage never
counts as zero.
"""

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from agent.errors import BudgetExceeded
from agent.records import (
    Completed,
    Completion,
    Evaluated,
    Event,
    Prompt,
    Prompted,
    Record,
    RetryScheduled,
    RunFinished,
    SecondLook,
    Spent,
    Unjudged,
)

MESSAGE_TOKENS = 16
"""Maximum number of tokens that a chat template adds to a message."""
LOOK_S = 60.0
"""Seconds assumed for a verdict on a GPU until the run has measured one (docs/verdict-times.md)."""
SECOND_LOOK_S = 120.0
"""Seconds assumed for confirming the best candidate until the run has measured one."""
MILLION = 1_000_000


class Limits(Record):
    """Limits of a run in addition to its rounds; None means no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    gpu_seconds: float | None = None


class Price(Record):
    """Price of a model in dollars per million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input * input_tokens + self.output * output_tokens) / MILLION


class Most(NamedTuple):
    """Maximum usage of one question with its answer."""

    tokens: int = 0
    cost_usd: float = 0.0


class Tariff(Record):
    """Data that bounds a question's cost: the longest answer and the prices.

    Without `answer_tokens`, nothing is reserved.
    """

    answer_tokens: int = 0
    prices: dict[str, Price] = {}
    """Prices by model name. The most expensive of the models that may be asked bounds a question."""

    def most(self, prompt: Prompt) -> Most:
        if not self.answer_tokens:
            return Most()
        size = sum(len(message.content.encode()) + MESSAGE_TOKENS for message in prompt.messages)
        dearest = max((price.of(size, self.answer_tokens) for price in self.prices.values()), default=0.0)
        return Most(size + self.answer_tokens, dearest)

    def priced(self, answer: Completion) -> Completion:
        """Return the answer with its cost: the endpoint's own figure, otherwise price times known tokens."""
        asked, written = answer.usage.input_tokens, answer.usage.output_tokens
        if answer.cost_usd is not None or asked is None or written is None:
            return answer
        only = next(iter(self.prices)) if len(self.prices) == 1 else ""
        price = self.prices.get(answer.asked or only)
        return answer.model_copy(update={"cost_usd": price.of(asked, written)}) if price else answer


class Budget:
    """A `Pace` that enforces the limits and the number of open rounds. Receives every event of its run."""

    def __init__(
        self, limits: Limits, *, parallel: int = 1, tariff: Tariff | None = None, on_gpu: bool = False,
        confirms: bool = True, before: Iterable[Event] = (),
    ) -> None:  # fmt: skip
        """Create the budget.

        `confirms` says that the best candidate gets a second look. `before` holds the events of a resumed
        run.
        """
        self.limits, self.tariff, self._parallel, self._on_gpu = limits, tariff or Tariff(), parallel, on_gpu
        self.refused: str | None = None
        """Description of the limit that prevented a question."""
        self._final = False
        """True if an open question could not be asked again, which ends the search."""
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._rounds, self._unspent, self._used = 0, 0, Most()
        self._aside: dict[int, Most] = {}
        """Usage reserved for each question without an answer."""
        self._failed: set[int] = set()
        """Questions that the endpoint did not answer."""
        self._gpu_s = self._longest_s = self._elapsed_s = 0.0
        self._look_s = LOOK_S if on_gpu else 0.0
        self._second_s = SECOND_LOOK_S if on_gpu and confirms else 0.0
        self._lost: dict[int, Most] = {}
        """Questions that are sent again because their answer is lost; it may have been paid for."""
        for event in before:
            self.take(event)
            self._elapsed_s = max(self._elapsed_s, _at(event))
        self._lost = {number: most for number, most in self._aside.items() if number not in self._failed}

    @property
    def spent(self) -> Spent:
        priced = self.limits.cost_usd is not None or self._used.cost_usd > 0
        return Spent(
            rounds=self._rounds - self._unspent, tokens=self._used.tokens,
            cost_usd=self._used.cost_usd if priced else None, seconds=self.elapsed(),
            gpu_seconds=round(self._gpu_s, 3),
        )  # fmt: skip

    def told(self) -> str:
        """Describe the usage of each limit: `$0.12 of $1 used`. Returns an empty string without limits."""
        limits, spent = self.limits, self.spent
        pairs = (
            (limits.tokens, spent.tokens, "{:,d} of {:,d} tokens"),
            (limits.cost_usd, spent.cost_usd, "${:.4g} of ${:.4g}"),
            (limits.seconds, spent.seconds, "{:.0f} of {:.0f} s"),
            (limits.gpu_seconds, spent.gpu_seconds, "{:.0f} of {:.0f} s on the GPU"),
        )
        used = [words.format(now or 0, limit) for limit, now, words in pairs if limit is not None]
        return f"{', '.join(used)} used" if used else ""

    def elapsed(self) -> float:
        """Return the seconds that the run has taken, including earlier processes."""
        return round(self._elapsed_s + time.monotonic() - self._began, 3)

    def turn(self) -> int | None:
        return None

    def begins(self, prompt: Prompt, beside: int) -> bool:
        with self._lock:
            if beside >= self._parallel:
                return False
            self.refused = self._lacks(self.tariff.most(prompt), beside)
            return self.refused is None

    def asks_again(self, number: int) -> None:
        """Charge the lost answer of a question before the question is sent again.

        Raises BudgetExceeded if the remaining budget does not allow another answer.
        """
        with self._lock:
            lost = self._lost.pop(number, None)
            if lost is None:
                return
            self._used = _sum([self._used, lost])
            del self._aside[number]
            self.refused = self._lacks(lost, len(self._aside))
            self._aside[number] = lost
            self._final = self.refused is not None
            if self._final:
                raise BudgetExceeded(f"{self.refused}; a question that was asked cannot be asked again")

    def take(self, event: Event) -> None:
        """Count the usage in an event of the run."""
        with self._lock:
            self.refused = self.refused if self._final else None
            self._count(event)

    def _count(self, event: Event) -> None:
        if isinstance(event, Unjudged) and event.then == "unspent":
            self._unspent += 1
        match event:
            case Prompted():
                self._rounds = max(self._rounds, event.round)
                self._aside[event.round] = self.tariff.most(event.prompt)
            case Completed():
                most = self._aside.pop(event.round, Most())
                self._used = _sum([self._used, _actual(event.completion, most)])
                self._longest_s = max(self._longest_s, event.completion.seconds or 0.0)
            case RetryScheduled(begun=True, round=int(number)):
                self._lost[number] = self._aside.get(number, Most())
            case Evaluated() | SecondLook() | Unjudged() if self._on_gpu:
                seconds = event.seconds or 0.0
                self._gpu_s += seconds
                if isinstance(event, SecondLook):
                    self._second_s = max(self._second_s, seconds)
                else:
                    self._look_s = max(self._look_s, seconds)
            case RunFinished(outcome="failed"):
                self._failed |= set(self._aside)

    def _lacks(self, most: Most, beside: int) -> str | None:
        """Describe the limit that another question could exceed; return None if enough is left for it."""
        limits, whole = self.limits, _sum([self._used, *self._aside.values(), most])
        time_s = self.elapsed() + self._longest_s + self._look_s + self._second_s
        gpu_s = self._gpu_s + (beside + 1) * self._look_s + self._second_s
        wanted = (
            (limits.tokens, whole.tokens, "{:,d} tokens"),
            (limits.cost_usd, whole.cost_usd, "${:.4g}"),
            (limits.seconds, time_s, "{:.0f} s"),
            (limits.gpu_seconds, gpu_s, "{:.0f} s of judging on the GPU"),
        )
        for limit, would, words in wanted:
            if limit is not None and would > limit:
                return f"the budget of {words.format(limit)} leaves no room for another round"
        return None


def _at(event: Event) -> float:
    """Return the elapsed seconds of the run at this event, or 0 if the event does not record them."""
    if isinstance(event, Prompted):
        return event.seconds or 0.0
    return event.spent.seconds if isinstance(event, RunFinished) and event.spent else 0.0


def _actual(answer: Completion, most: Most) -> Most:
    """Return the usage of an answer. Missing counts are replaced by the maximum."""
    asked, written = answer.usage.input_tokens, answer.usage.output_tokens
    known = asked is not None and written is not None
    tokens = (asked or 0) + (written or 0) if known else most.tokens
    return Most(tokens, answer.cost_usd if answer.cost_usd is not None else most.cost_usd)


def _sum(parts: Iterable[Most]) -> Most:
    parts = list(parts)
    return Most(sum(part.tokens for part in parts), sum(part.cost_usd for part in parts))
