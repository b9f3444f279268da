"""Resuming a run: `solve()` runs again, and stored answers and verdicts are used first.

Nothing that was received is requested again, and nothing that was judged is judged again. Every event that
`solve()` emits is compared with the stored one until all stored events are used. A difference means that this
version cannot continue the run. The stored event is never overwritten.
"""

import threading
from collections import deque

from agent.errors import EnvironmentFault, Rebuilt, UsageError
from agent.protocols import Confirmer, Executor, Look, Pace, Provider, Transcript
from agent.records import (
    Attempt,
    Candidate,
    Completed,
    Completion,
    Evaluated,
    Evaluation,
    Event,
    Problem,
    Prompt,
    Prompted,
    ReplyRejected,
    RunStarted,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store.log import Log

_Looked = SecondLook | Unconfirmed
_Step = Prompted | Completed | ReplyRejected | Evaluated | Unjudged | _Looked
"""Events that `solve()` emits in the same order whenever it receives the same inputs in the same order."""


class Resume:
    """Answers and verdicts of a stored run. Raises UsageError when the log has damaged lines."""

    def __init__(self, log: Log) -> None:
        if log.problems:
            raise UsageError(
                f"events.jsonl is damaged ({log.problems[0]}); start a new run instead of resuming"
            )
        self.started = log.started
        self.pending: deque[_Step] = deque(event for event in log.events if isinstance(event, _Step))
        """Stored events that have not been emitted again yet."""
        self.answers: deque[Completed] = deque(e for e in self.pending if isinstance(e, Completed))
        self.evaluations: dict[str, deque[Evaluation | EnvironmentFault | Rebuilt]] = {}
        """Verdicts and faults from judging each candidate, by its id."""
        self.looks: dict[int, deque[Look]] = {}
        """Outcomes of the second looks at each attempt, by its number."""
        for event in self.pending:
            if isinstance(event, _Looked):
                self.looks.setdefault(event.number, deque()).append(_look(event))
            elif isinstance(event, Evaluated):
                found = self.evaluations.setdefault(event.attempt.candidate.id, deque())
                found.append(event.attempt.evaluation)
            elif isinstance(event, Unjudged):
                fault = EnvironmentFault(event.reason, event.details)
                self.evaluations.setdefault(event.candidate.id, deque()).append(fault)
            elif isinstance(event, ReplyRejected) and event.candidate and event.program:
                self.evaluations.setdefault(event.candidate, deque()).append(Rebuilt(event.program))

    def provider(self, inner: Provider) -> Provider:
        """Return a provider that answers from the transcript first, then asks `inner`."""
        return _Provider(self, inner)

    def executor(self, inner: Executor) -> Executor:
        """Return an executor that gives the stored verdict or raises the stored fault, then asks `inner`."""
        return _Executor(self, inner)

    def pace(self, inner: Pace) -> Pace:
        """Return a pace that repeats the transcript's order of questions and rounds, then asks `inner`."""
        return _Pace(self, inner)

    def confirmer(self, inner: Confirmer) -> Confirmer:
        """Return a confirmer that reports each stored second look at its place, then asks `inner`."""
        return _Confirmer(self, inner)

    def transcript(self, inner: Transcript) -> Transcript:
        """Return a transcript that checks and drops stored events, then appends to `inner`."""
        return _Transcript(self, inner)


class _Provider:
    """Provider that finds the stored answer by its prompt. Prompts that are open at the same time differ."""

    def __init__(self, stored: Resume, inner: Provider) -> None:
        self._stored = stored
        self._inner = inner
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, prompt: Prompt) -> Completion:
        with self._lock:
            answers = self._stored.answers
            found = next((index for index, one in enumerate(answers) if one.prompt_id == prompt.id), None)
            if found is not None:
                known = answers[found].completion
                del answers[found]
                return known
        return self._inner.complete(prompt)


class _Executor:
    def __init__(self, stored: Resume, inner: Executor) -> None:
        self._stored = stored
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        verdicts = self._stored.evaluations.get(candidate.id)
        known = verdicts.popleft() if verdicts else self._inner.evaluate(problem, candidate)
        if isinstance(known, EnvironmentFault | Rebuilt):
            raise known
        return known

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return self._inner.confirm(problem, candidate, evaluation)


class _Pace:
    """Pace that repeats the order in which stored rounds were begun and taken up."""

    def __init__(self, stored: Resume, inner: Pace) -> None:
        self._stored = stored
        self._inner = inner

    def begins(self, prompt: Prompt, beside: int) -> bool:
        pending = self._stored.pending
        return isinstance(pending[0], Prompted) if pending else self._inner.begins(prompt, beside)

    def turn(self) -> int | None:
        came_in = (event.round for event in self._stored.pending if not isinstance(event, Prompted | _Looked))
        return next(came_in, None) if self._stored.pending else self._inner.turn()


class _Confirmer:
    """Confirmer that reports a stored second look where its event stands, and repeats an interrupted one."""

    def __init__(self, stored: Resume, inner: Confirmer) -> None:
        self._stored = stored
        self._inner = inner
        self._known: Look | None = None

    def begin(self, attempt: Attempt) -> None:
        looks = self._stored.looks.get(attempt.number)
        self._known = looks.popleft() if looks else None
        if self._known is None:
            self._inner.begin(attempt)

    def ready(self) -> bool:
        pending = self._stored.pending
        return isinstance(pending[0], _Looked) if pending else self._inner.ready()

    def outcome(self) -> Look:
        return self._known or self._inner.outcome()


class _Transcript:
    def __init__(self, stored: Resume, inner: Transcript) -> None:
        self._stored = stored
        self._inner = inner

    def append(self, event: Event) -> Event | None:
        if isinstance(event, RunStarted) and self._stored.started is not None:
            if event.problem.id != self._stored.started.problem.id:
                raise UsageError("the problem's source has changed since the run was made; start a new run")
            return self._stored.started
        if not isinstance(event, _Step) or not self._stored.pending:
            return self._inner.append(event)
        stored = self._stored.pending.popleft()
        if _identity(stored) != _identity(event):
            raise _changed(f"event {stored.seq} is {_spell(stored)}, now it would be {_spell(event)}")
        return stored


def _identity(event: _Step) -> tuple[str, int, str]:
    match event:
        case Prompted():
            return event.kind, event.round, event.prompt.id
        case Completed():
            return event.kind, event.round, event.prompt_id
        case ReplyRejected():
            return event.kind, event.round, event.feedback.kind
        case Evaluated():
            return event.kind, event.round, event.attempt.candidate.id
        case Unjudged():
            return event.kind, event.round, event.candidate.id
        case SecondLook() | Unconfirmed():
            return event.kind, event.round, f"attempt {event.number}"


def _look(event: _Looked) -> Look:
    if isinstance(event, SecondLook):
        return Look(event.evaluation, event.seconds)
    return Look(EnvironmentFault(event.reason, event.details), event.seconds)


def _spell(event: _Step) -> str:
    kind, number, identity = _identity(event)
    return f"{kind} in round {number} ({identity[:12]})"


def _changed(difference: str) -> UsageError:
    return UsageError(
        "the run was made by another version or with other settings and cannot be continued: "
        f"{difference}; start a new run"
    )
