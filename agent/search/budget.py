"""One budget for a run: what it may use, what it has used, and what is set aside for what is open.

A question is asked only where the most that it can cost is left beside the most that the open ones can. That
needs a bound: an answer has at most as many tokens as the endpoint is told to write, a prompt at most as many
as it has bytes. What may have been paid for and never came in (a broken stream, a process that was killed)
counts as the most that it can have been; unknown is never nothing.
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
"""What a chat template puts around a message, at most."""
LOOK_S = 60.0
"""What a verdict on a GPU takes, until one of the run is known (docs/verdict-times.md)."""
SECOND_LOOK_S = 120.0
"""What confirming the best takes, until it is known."""
MILLION = 1_000_000


class Limits(Record):
    """What a run may use, beside its rounds; None: without a limit of this kind."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    gpu_seconds: float | None = None


class Price(Record):
    """Of a model, in dollars for a million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input * input_tokens + self.output * output_tokens) / MILLION


class Most(NamedTuple):
    """The most that one question with its answer can take."""

    tokens: int = 0
    cost_usd: float = 0.0


class Tariff(Record):
    """What bounds a question: the longest answer, and the price. Without the former nothing is set aside."""

    answer_tokens: int = 0
    prices: dict[str, Price] = {}
    """By name of the model: of those that may be asked, the dearest bounds a question."""

    def most(self, prompt: Prompt) -> Most:
        if not self.answer_tokens:
            return Most()
        size = sum(len(message.content.encode()) + MESSAGE_TOKENS for message in prompt.messages)
        dearest = max((price.of(size, self.answer_tokens) for price in self.prices.values()), default=0.0)
        return Most(size + self.answer_tokens, dearest)

    def priced(self, answer: Completion) -> Completion:
        """The answer with its cost: as the endpoint says it, else by the price where its tokens are known."""
        asked, written = answer.usage.input_tokens, answer.usage.output_tokens
        if answer.cost_usd is not None or asked is None or written is None:
            return answer
        only = next(iter(self.prices)) if len(self.prices) == 1 else ""
        price = self.prices.get(answer.asked or only)
        return answer.model_copy(update={"cost_usd": price.of(asked, written)}) if price else answer


class Budget:
    """A `Pace`: the limits, and how many rounds may be open. Hears every event of its run."""

    def __init__(
        self, limits: Limits, *, parallel: int = 1, tariff: Tariff | None = None, on_gpu: bool = False,
        confirms: bool = True, before: Iterable[Event] = (),
    ) -> None:  # fmt: skip
        """`confirms`: the best gets a second look; `before`: the events of a run that is gone on with."""
        self.limits, self.tariff, self._parallel, self._on_gpu = limits, tariff or Tariff(), parallel, on_gpu
        self.refused: str | None = None
        """The limit that kept a question from being asked, in words."""
        self._final = False
        """Whether a question that is open could not be asked again: the search ends for that."""
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._rounds, self._unspent, self._used = 0, 0, Most()
        self._aside: dict[int, Most] = {}
        """For each question without an answer."""
        self._failed: set[int] = set()
        """Questions that the endpoint did not answer."""
        self._gpu_s = self._longest_s = self._elapsed_s = 0.0
        self._look_s = LOOK_S if on_gpu else 0.0
        self._second_s = SECOND_LOOK_S if on_gpu and confirms else 0.0
        self._lost: dict[int, Most] = {}
        """Questions whose answer may have been paid for and will not come in: they go out once more."""
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
        """What is used of each limit, in words: `$0.12 of $1 used`; nothing where there is no limit."""
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
        """Seconds that the run has gone on, those of earlier processes included."""
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
        """Before a question goes out once more: what it was set aside for may have been used up.

        Raises BudgetExceeded where nothing is left for another.
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
        """Counts what an event of the run says."""
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
        """The limit that another question could break, in words; None where all that it can take is left."""
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
    """How long a run had gone on when the event was written, as far as it says."""
    if isinstance(event, Prompted):
        return event.seconds or 0.0
    return event.spent.seconds if isinstance(event, RunFinished) and event.spent else 0.0


def _actual(answer: Completion, most: Most) -> Most:
    """What an answer took; what it does not say counts as the most."""
    asked, written = answer.usage.input_tokens, answer.usage.output_tokens
    known = asked is not None and written is not None
    tokens = (asked or 0) + (written or 0) if known else most.tokens
    return Most(tokens, answer.cost_usd if answer.cost_usd is not None else most.cost_usd)


def _sum(parts: Iterable[Most]) -> Most:
    parts = list(parts)
    return Most(sum(part.tokens for part in parts), sum(part.cost_usd for part in parts))
