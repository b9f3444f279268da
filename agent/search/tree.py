"""Search tree of a run: rounds that continue one another, and the state of each line of rounds.

A tree is a value built only from the events of a run, one by one. Policies read it. A *line* is a round with
all rounds that it continues: what its next question shows and remembers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import log
from types import MappingProxyType

from agent import feedback, ranking
from agent.errors import ReplyError
from agent.memory import Ledger
from agent.records import (
    Attempt,
    Completed,
    Evaluated,
    Event,
    Feedback,
    Move,
    Prompted,
    ReplyRejected,
    SecondLook,
    Unjudged,
)


@dataclass(frozen=True)
class Node:
    """One round, and the state of its line after the round's results so far."""

    round: int
    move: Move
    shown: int | None = None
    """Number of the attempt whose code the prompt showed."""
    open: bool = True
    """True while an answer or a verdict is missing."""
    attempts: tuple[int, ...] = ()
    """Attempts judged in this round: the answer, then its mends."""
    last: int | None = None
    """Latest attempt of the line."""
    feedback: Feedback | None = None
    """Feedback on the latest answer of the line."""
    mended: tuple[int, ...] = ()
    """Attempts that `last` was mended from, oldest first."""
    ledger: Ledger = Ledger()
    """Ledger of the attempts of the line, for prompts."""

    @property
    def begins(self) -> bool:
        """Return True if the round begins a line of attempts."""
        return self.move.after is None and not self.move.plan


@dataclass(frozen=True)
class Tree:
    """All rounds and attempts by number, in the order in which they began and were judged."""

    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    attempts: Mapping[int, Attempt] = field(default_factory=lambda: MappingProxyType({}))
    """Attempts by number, with their current verdicts."""
    known: Ledger = Ledger()
    """Ledger of the attempts of all lines."""
    idle: int = 0
    """Number of answers since the best kernel improved or was withdrawn."""
    plan: str = ""
    """Text of the model's answer to the question for ideas; empty if there is none."""
    asked: int = 0
    """Number of the latest round, including rounds that do not count."""
    gains: tuple[float, ...] = ()
    """For each answer, the log speedup of the best kernel until the next answer arrived."""
    answered: tuple[int, ...] = ()
    """Round of each answer in `gains`."""

    @property
    def open(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes.values() if node.open)

    @property
    def best(self) -> Attempt | None:
        return ranking.best_of(self.attempts.values(), None)

    def line(self, number: int | None) -> tuple[Node, ...]:
        """Return the round and those it continues, oldest first."""
        found: list[Node] = []
        while number is not None:
            found.append(self.nodes[number])
            number = found[-1].move.after
        return tuple(reversed(found))

    def best_on(self, number: int | None) -> Attempt | None:
        """Return the best verified attempt of a line."""
        made = sorted(one for node in self.line(number) for one in node.attempts)
        return ranking.best_of((self.attempts[one] for one in made), None)

    def last_on(self, number: int | None) -> Attempt | None:
        """Return the latest attempt of a line."""
        last = self.nodes[number].last if number is not None else None
        return self.attempts[last] if last is not None else None

    def built_before(self, program: str) -> ReplyError:
        """Return the error for an answer that builds to the same program as an earlier attempt."""
        builds = ((number, attempt.evaluation.build) for number, attempt in self.attempts.items())
        return self.known.rebuilt({number for number, build in builds if build and build.program == program})

    def closed(self, number: int) -> "Tree":
        """Return the tree with a round closed, which expects no more results."""
        return self._with(replace(self.nodes[number], open=False))

    def take(self, event: Event) -> "Tree":
        """Return the tree after one more event."""
        match event:
            case Prompted():
                return self._asked(event)
            case Completed() if self.nodes[event.round].move.plan:
                return replace(self, plan=event.completion.text)
            case Completed():
                return replace(
                    self, idle=self.idle + 1, gains=(*self.gains, 0.0), answered=(*self.answered, event.round)
                )  # fmt: skip
            case ReplyRejected():
                return self._with(replace(self.nodes[event.round], feedback=event.feedback))
            case Unjudged(then="again"):
                return self
            case Unjudged(then="unspent"):
                return self._without(event.round)
            case Unjudged() if not self.nodes[event.round].attempts:
                # A round of an earlier version counts as a round, but not for patience.
                return replace(self, idle=self.idle - 1)
            case Evaluated():
                return self._judged(event.round, event.attempt)
            case SecondLook():
                return self._looked(event)
            case _:
                return self

    def _with(self, node: Node) -> "Tree":
        return replace(self, nodes=MappingProxyType({**self.nodes, node.round: node}))

    def _without(self, number: int) -> "Tree":
        """Return the tree without a round, as if never asked, so that policies ask for the same again."""
        nodes = {round_: node for round_, node in self.nodes.items() if round_ != number}
        place = self.answered.index(number)
        gains = list(self.gains)
        gain = gains.pop(place)
        if place:
            gains[place - 1] += gain
        answered = tuple(round_ for round_ in self.answered if round_ != number)
        return replace(
            self, nodes=MappingProxyType(nodes), idle=max(self.idle - 1, 0), gains=tuple(gains),
            answered=answered,
        )  # fmt: skip

    def _asked(self, event: Prompted) -> "Tree":
        after = event.move.after
        before = self.nodes[after] if after is not None else Node(round=0, move=Move())
        best = self.best_on(after) if event.prompt.template in ("optimise", "combine") else None
        shown = best.number if best else before.last
        node = replace(before, round=event.round, move=event.move, shown=shown, open=True, attempts=())
        return replace(self._with(node), asked=event.round)

    def _judged(self, number: int, attempt: Attempt) -> "Tree":
        node, best = self.nodes[number], self.best
        compared = node.attempts[-1] if node.attempts else node.shown
        before = self.attempts[compared] if compared is not None else None
        ledger = node.ledger.with_attempt(attempt, before)
        later = replace(
            self._with(
                replace(
                    node, attempts=(*node.attempts, attempt.number), last=attempt.number,
                    feedback=feedback.on_evaluation(attempt), mended=node.attempts, ledger=ledger,
                )
            ),
            attempts=MappingProxyType({**self.attempts, attempt.number: attempt}),
            known=Ledger(entries=(*self.known.entries, ledger.entries[-1])),
        )  # fmt: skip
        new = later.best
        if new is None or (best is not None and new.number == best.number):
            return later
        return replace(later, idle=0, gains=(*later.gains[:-1], later.gains[-1] + _gain(best, new)))

    def _looked(self, event: SecondLook) -> "Tree":
        """Apply a second look; withdraw a refused attempt from every line, with the usual feedback."""
        number = event.number
        attempt = self.attempts[number].model_copy(update={"evaluation": event.evaluation})
        tree = replace(self, attempts=MappingProxyType({**self.attempts, number: attempt}))
        if not event.evaluation.withdrawn:
            return tree
        told = feedback.on_evaluation(attempt)
        nodes = {
            round_: replace(
                node,
                ledger=node.ledger.with_verdict(attempt),
                feedback=told if node.last == number else node.feedback,
            )
            for round_, node in self.nodes.items()
        }
        known = self.known.with_verdict(attempt)
        return replace(tree, nodes=MappingProxyType(nodes), known=known, idle=0)


def _gain(before: Attempt | None, now: Attempt) -> float:
    """Return the log speedup; 0 for the first kernel, and for kernels that were not timed."""
    old, new = (one.evaluation.measurement if one else None for one in (before, now))
    return max(0.0, log(old.candidate_ms.p50 / new.candidate_ms.p50)) if old and new else 0.0
