"""Going on with a run: `solve()` runs again, and what is on disk answers first.

Nothing that was received is asked for again and nothing that was judged is judged again. Every event that
`solve()` emits is compared with the stored one until the stored ones are used up; a difference means that
the run cannot be continued by this version, and is never written over.
"""

from collections import deque

from agent.errors import EnvironmentFault, UsageError
from agent.protocols import Executor, Provider, Transcript
from agent.records import (
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
    Unjudged,
)
from agent.store.log import Log

_Step = Prompted | Completed | ReplyRejected | Evaluated | Unjudged
"""The events that `solve()` emits in the same order every time it is run on the same answers."""


class Resume:
    """What a stored run already knows. Raises UsageError when the log has damaged lines."""

    def __init__(self, log: Log) -> None:
        if log.problems:
            raise UsageError(
                f"events.jsonl is damaged ({log.problems[0]}); start a new run instead of resuming"
            )
        self.started = log.started
        self.pending: deque[_Step] = deque(event for event in log.events if isinstance(event, _Step))
        """Stored events that the transcript has not seen emitted again."""
        self.answers: deque[Completed] = deque(e for e in self.pending if isinstance(e, Completed))
        self.evaluations: dict[str, deque[Evaluation | EnvironmentFault]] = {}
        """What came of judging each candidate, by its id."""
        for event in self.pending:
            if isinstance(event, Evaluated):
                found = self.evaluations.setdefault(event.attempt.candidate.id, deque())
                found.append(event.attempt.evaluation)
            elif isinstance(event, Unjudged):
                fault = EnvironmentFault(event.reason, event.details)
                self.evaluations.setdefault(event.candidate.id, deque()).append(fault)

    def provider(self, inner: Provider) -> Provider:
        """Answers from the transcript while it lasts, then asks `inner`."""
        return _Provider(self, inner)

    def executor(self, inner: Executor) -> Executor:
        """Gives the stored verdict on a candidate, or raises the stored fault, else lets `inner` judge."""
        return _Executor(self, inner)

    def transcript(self, inner: Transcript) -> Transcript:
        """Checks and swallows what is on disk already, then passes on to `inner`."""
        return _Transcript(self, inner)


class _Provider:
    def __init__(self, stored: Resume, inner: Provider) -> None:
        self._stored = stored
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, prompt: Prompt) -> Completion:
        if not self._stored.answers:
            return self._inner.complete(prompt)
        answer = self._stored.answers.popleft()
        if answer.prompt_id != prompt.id:
            raise _changed(
                f"answer {answer.seq} is to prompt {answer.prompt_id[:12]}, not to {prompt.id[:12]}"
            )
        return answer.completion


class _Executor:
    def __init__(self, stored: Resume, inner: Executor) -> None:
        self._stored = stored
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def evaluate(self, problem: Problem, candidate: Candidate, best: Evaluation | None = None) -> Evaluation:
        verdicts = self._stored.evaluations.get(candidate.id)
        known = verdicts.popleft() if verdicts else self._inner.evaluate(problem, candidate, best)
        if isinstance(known, EnvironmentFault):
            raise known
        return known


class _Transcript:
    def __init__(self, stored: Resume, inner: Transcript) -> None:
        self._stored = stored
        self._inner = inner

    def append(self, event: Event) -> None:
        if isinstance(event, RunStarted) and self._stored.started is not None:
            if event.problem.id != self._stored.started.problem.id:
                raise UsageError("the problem's source has changed since the run was made; start a new run")
            return
        if not isinstance(event, _Step) or not self._stored.pending:
            self._inner.append(event)
            return
        stored = self._stored.pending.popleft()
        if _identity(stored) != _identity(event):
            raise _changed(f"event {stored.seq} is {_spell(stored)}, now it would be {_spell(event)}")


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


def _spell(event: _Step) -> str:
    kind, number, identity = _identity(event)
    return f"{kind} in round {number} ({identity[:12]})"


def _changed(difference: str) -> UsageError:
    return UsageError(
        "the run was made by another version or with other settings and cannot be continued: "
        f"{difference}; start a new run"
    )
