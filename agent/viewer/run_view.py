"""One run as its page shows it: steps, chart, floor, and the texts that can be downloaded.

Derived only from the transcript. A step is an attempt, or a round that led to none.
"""

from dataclasses import dataclass
from functools import cached_property

from agent import store
from agent.errors import AgentError
from agent.problems.roofline import Gpu, find, floor_ms
from agent.records import (
    Completed,
    Evaluated,
    Problem,
    Prompted,
    ReplyRejected,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store import branches, history
from agent.store.history import Entry, History
from agent.viewer import chart

REPEATED = "repeated-answer"
"""Feedback kind of a reply whose code was judged before."""
_PLACED = Prompted | Completed | ReplyRejected | Evaluated | Unjudged | SecondLook | Unconfirmed


@dataclass(frozen=True)
class Step:
    """An attempt with its round, or a round without an attempt."""

    round: store.Round
    entry: Entry | None
    depth: int = 0
    """Indentation level: that of the round in the tree, plus the number of mends since the answer."""
    asked: str = ""
    """Description of the policy's question; empty for a mend, which no prompt asked for."""
    idea: str = ""
    """Approach that the round was asked to try."""

    @property
    def anchor(self) -> str:
        """Return the fragment of a link to this step: `attempt-3`, `round-2`."""
        return f"attempt-{self.entry.number}" if self.entry else f"round-{self.round.number}"

    @property
    def name(self) -> str:
        return self.anchor.replace("-", " ")

    @property
    def outcome(self) -> str:
        """Describe the outcome of a round without an attempt in a word or two."""
        if self.round.move and self.round.move.plan:
            return "plan" if self.round.completion else "plan asked"
        if self.round.rejected:
            return "repeated" if self.round.rejected.kind == REPEATED else "no code"
        return "not judged" if self.round.unjudged else "being judged" if self.round.completion else "asked"

    @property
    def status(self) -> str:
        """Return the verdict, `no_code` for a rejected reply, or `waiting` while there is none.

        `unjudged` marks a candidate that could not be judged because of a fault of kernelwright or the
        machine.
        """
        if self.entry is not None:
            return str(self.entry.attempt.evaluation.status)
        if self.round.unjudged:
            return "unjudged"
        return "no_code" if self.round.rejected else "waiting"

    @property
    def unconfirmed(self) -> tuple[Unconfirmed, ...]:
        """Return the second looks at the attempt that could not be made."""
        looks = self.round.second_looks if self.entry else ()
        own = (look for look in looks if self.entry and look.number == self.entry.number)
        return tuple(look for look in own if isinstance(look, Unconfirmed))

    @property
    def version(self) -> int:
        """Return a number that grows while a round progresses; for an attempt, its number of second looks."""
        if self.entry is not None:
            return sum(look.number == self.entry.number for look in self.round.second_looks)
        parts = (self.round.completion, self.round.rejected)
        return sum(part is not None for part in parts) + len(self.round.retries) + len(self.round.unjudged)


@dataclass(frozen=True)
class RunView:
    """A run with its log, and what its page derives from them."""

    run: store.Run
    log: store.Log
    state: store.RunState

    @cached_property
    def info(self) -> store.RunInfo | None:
        """Return the content of run.toml, or None if it is missing or damaged."""
        try:
            return self.run.info
        except AgentError:
            return None

    @cached_property
    def problem(self) -> Problem | None:
        return self.log.started.problem if self.log.started else None

    @cached_property
    def history(self) -> History:
        return history.build_history(self.log)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        depths: dict[int, int] = {}
        by_round: dict[int, list[Entry]] = {}
        for entry in self.history.entries:
            by_round.setdefault(entry.round, []).append(entry)
        for branch in branches.order_rounds(self.log.rounds):
            round_, depth = branch.round, branch.depth
            for entry in by_round.get(round_.number, []):
                mend = entry.attempt.candidate.origin == "mend"
                depths[entry.number] = depths.get(entry.parent or 0, depth) + 1 if mend else depth
                asked = ("", "") if mend else (branch.asked, branch.idea)
                steps.append(Step(round_, entry, depths[entry.number], *asked))
            if round_.number not in by_round:
                steps.append(Step(round_, None, depth, branch.asked, branch.idea))
        return tuple(steps)

    @property
    def chosen(self) -> Step | None:
        """Return the step that the page opens with: the best attempt, otherwise the newest step."""
        best = (step for step in self.steps if step.entry and step.entry.number == self.history.best)
        return next(best, self.newest)

    @cached_property
    def newest(self) -> Step | None:
        """Return the step of the latest event, which in a tree need not be the last step."""
        places = (event.round for event in reversed(self.log.events) if isinstance(event, _PLACED))
        latest = next(places, None)
        return next((step for step in reversed(self.steps) if step.round.number == latest), None)

    def step(self, anchor: str) -> Step | None:
        return next((step for step in self.steps if step.anchor == anchor), None)

    @cached_property
    def gpu(self) -> Gpu | None:
        """Return the GPU of the last measurement, otherwise the one whose roofline the prompts gave."""
        measured = [m.gpu for entry in self.history.entries if (m := entry.attempt.evaluation.measurement)]
        asked = self.info.settings.options.get("gpu") if self.info else None
        return find(measured[-1] if measured else str(asked or ""))

    @cached_property
    def floor_ms(self) -> float | None:
        """Return the roofline's bound at full shapes in ms, or None if the problem or the GPU is unknown."""
        if self.problem is None or self.gpu is None:
            return None
        return floor_ms(self.problem.trace, self.gpu) or None

    @property
    def measured(self) -> bool:
        return any(entry.attempt.evaluation.measurement for entry in self.history.entries)

    @property
    def emulated(self) -> bool:
        """Return True if no attempt was judged on a GPU."""
        scopes = [entry.attempt.evaluation.scope for entry in self.history.entries]
        return bool(scopes) and all(scope.executor == "emulator" for scope in scopes)

    @cached_property
    def chart(self) -> chart.Chart | None:
        shown = [
            chart.Step(step.anchor, step.name, step.status, step.entry)
            for step in sorted(self.steps, key=_place)
            if step.status not in ("waiting", "unjudged")
        ]
        return chart.draw(shown, self.history.best, self.floor_ms)

    def text(self, name: str) -> str | None:
        """Return a stored text by the name that pages link to: `source-3`, `answer-2`, `reference`."""
        kind, _, digits = name.partition("-")
        if name == "reference":
            return self.problem.source if self.problem else None
        number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else 0
        if kind in ("source", "evidence"):
            entry = self.history.entry(number)
            return _of_attempt(entry, kind) if entry else None
        found = next((round_ for round_ in self.log.rounds if round_.number == number), None)
        return _of_round(found, kind) if found else None


def _place(step: Step) -> tuple[int, int]:
    """Return a sort key for the order in which steps occurred, as far as attempts show it."""
    return step.round.number, step.entry.number if step.entry else 0


def _of_attempt(entry: Entry, kind: str) -> str:
    if kind == "source":
        return entry.attempt.candidate.source
    findings = entry.attempt.evaluation.findings
    return "\n\n".join("\n".join(filter(None, (f.kind, f.message, f.evidence))) for f in findings)


def _of_round(round_: store.Round, kind: str) -> str | None:
    match kind:
        case "prompt" if round_.prompt:
            return "\n\n".join(f"[{m.role}]\n{m.content}" for m in round_.prompt.messages)
        case "answer" if round_.completion:
            return round_.completion.text
        case "reasoning" if round_.completion:
            return round_.completion.reasoning
        case _:
            return None
