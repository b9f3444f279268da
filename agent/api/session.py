"""One run in progress: begun or resumed, told event by event, ended with an outcome on disk."""

from dataclasses import dataclass
from typing import Literal

from agent import loop, ranking, store
from agent.api.listening import Listener
from agent.api.verdicts import brief, told
from agent.confirming import Beside
from agent.errors import AgentError, AwaitingAnswers, EndpointError, EnvironmentFault, Interrupted
from agent.protocols import Confirmer, Executor, Provider, Transcript
from agent.records import (
    Attempt,
    Completed,
    Evaluated,
    Event,
    Problem,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    RunStarted,
    SecondLook,
    Unconfirmed,
    Unjudged,
)

Outcome = Literal["verified", "no_kernel", "budget", "interrupted", "failed"]


@dataclass
class Session:
    """One run in progress: where it is written, what it knows from before."""

    run: store.Run
    problem: Problem
    plan: loop.Plan
    writer: store.Writer
    told: Listener
    stored: store.Resume | None = None

    def __post_init__(self) -> None:
        self._narrated = _Narrated(self)

    def note(self, event: RetryScheduled) -> None:
        """Writes down and tells an event that the loop knows nothing of."""
        self._narrated.append(event)

    def solve(self, provider: Provider, executor: Executor) -> RunFinished:
        """Runs the loop to its end and writes that end down.

        Raises EndpointError or EnvironmentFault when it could not go on and nothing is verified, Interrupted
        on Ctrl-C; the run can then be resumed.
        """
        transcript: Transcript = self._narrated
        confirmer: Confirmer = Beside(self.problem, executor)
        if self.stored is None:
            self.writer.append(
                RunStarted(
                    problem=self.problem, provider=provider.name, executor=executor.name,
                    rounds=self.plan.rounds, patience=self.plan.patience,
                )
            )  # fmt: skip
        else:
            provider, executor = self.stored.provider(provider), self.stored.executor(executor)
            transcript, confirmer = self.stored.transcript(transcript), self.stored.confirmer(confirmer)
        try:
            best = loop.solve(self.problem, provider, executor, transcript, self.plan, confirmer)
        except KeyboardInterrupt:
            self._finish("interrupted", "stopped by Ctrl-C")
            raise Interrupted(f"interrupted; go on with: agent run --resume {self.run.id}") from None
        except AwaitingAnswers as error:
            self._finish("interrupted", str(error))
            raise AwaitingAnswers(f"{error}; go on with: agent run --resume {self.run.id}") from error
        except EndpointError as error:
            finished = self._finish("failed", str(error))
            if finished.best is None:
                raise EndpointError(f"{error}; go on with: agent run --resume {self.run.id}") from error
            self.told.warn(f"{error}; the best kernel so far is kept")
            return finished
        except EnvironmentFault as fault:
            self._finish("failed", str(fault))
            raise EnvironmentFault(
                f"{fault}; go on with: agent run --resume {self.run.id}", fault.details
            ) from fault
        except AgentError as error:
            self._finish("failed", str(error))
            raise
        if best is None:
            return self._finish("no_kernel", f"no verified kernel in {self.plan.rounds} rounds")
        return self._finish("verified", f"attempt {best.number} is {brief(best)}")

    def best(self) -> Attempt | None:
        """The best attempt on disk."""
        return ranking.best_of(self.run.read().attempts, None)

    def _finish(self, outcome: Outcome, reason: str) -> RunFinished:
        best = self.best()
        finished = RunFinished(outcome=outcome, best=best.number if best else None, reason=reason)
        self.writer.append(finished)
        return finished


class _Narrated:
    """Writes each event, keeps best.py current, and says what happened in one line."""

    def __init__(self, session: Session) -> None:
        self._session, self._told = session, session.told
        self._best = session.best() if session.stored else None

    def append(self, event: Event) -> None:
        self._session.writer.append(event)
        if isinstance(event, Evaluated | SecondLook):
            previous, self._best = self._best, self._session.best()
            if self._best is None and previous is not None:
                store.remove_best(self._session.run)
            elif self._best is not None and self._best != previous:
                store.write_best(self._session.run, self._best, self._session.problem)
        self._say(event)
        self._told.event(event)

    def _say(self, event: Event) -> None:
        if isinstance(event, Prompted):
            self._told.update(f"round {event.round}: waiting for the answer ({event.prompt.template})")
        elif isinstance(event, Completed):
            tokens = event.completion.usage.output_tokens
            size = f"{tokens} tokens" if tokens is not None else f"{len(event.completion.text)} characters"
            self._told.say(f"round {event.round}: answer of {size}")
        elif isinstance(event, ReplyRejected):
            self._told.say(f"round {event.round}: no candidate: {event.feedback.text.splitlines()[0]}")
        elif isinstance(event, RetryScheduled):
            self._told.say(f"asking again in {event.wait_seconds:.1f} s: {event.reason}")
        elif isinstance(event, Unjudged):
            self._told.warn(
                f"round {event.round}: attempt {event.number} could not be judged: {event.reason}"
            )
        elif isinstance(event, Evaluated):
            headline = event.attempt.evaluation.headline
            cause = f": {headline.kind}: {headline.message}" if headline else ""
            self._told.say(
                f"round {event.round}: attempt {event.attempt.number} {brief(event.attempt)}{cause}"
            )
        elif isinstance(event, SecondLook):
            self._told.say(self._after(event))
        elif isinstance(event, Unconfirmed):
            self._told.warn(f"attempt {event.number} could not be confirmed so far: {event.reason}")

    def _after(self, event: SecondLook) -> str:
        """What a second look came to, and, where it refused, what the search falls back on."""
        found = event.evaluation
        if not found.withdrawn:
            seconds = f" in {event.seconds:.0f} s" if event.seconds is not None else ""
            return f"attempt {event.number} is confirmed by a second look{seconds}: {told(found)}"
        cause = f"{found.headline.kind}: {found.headline.message}" if found.headline else str(found.status)
        left = f"the best is attempt {self._best.number} again" if self._best else "nothing else is verified"
        return f"attempt {event.number} is withdrawn, a second look refused it: {cause}; {left}"
