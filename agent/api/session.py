"""One run in progress, new or resumed: it reports each event and writes its outcome to disk."""

import threading
from dataclasses import dataclass, field
from typing import Literal

from agent import loop, ranking, store
from agent.api.listening import Listener
from agent.api.verdicts import brief, told
from agent.confirming import Beside
from agent.errors import (
    AgentError,
    AwaitingAnswers,
    AwaitingGpu,
    BudgetExceeded,
    EndpointError,
    EnvironmentFault,
    Interrupted,
)
from agent.protocols import Confirmer, Executor, Pace, Pacing, Provider, Transcript
from agent.records import (
    Attempt,
    Completed,
    Completion,
    Evaluated,
    Event,
    Problem,
    Prompt,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    RunStarted,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.search.budget import Budget, Limits
from agent.search.workers import ROUND

_DOUBTFUL = "stays verified, and a second look could not make all of its main checks"
_FOLLOWS = {"again": "; it is judged once more", "unspent": "; the round does not count", "spent": ""}
Outcome = Literal["verified", "no_kernel", "budget", "interrupted", "failed"]


@dataclass
class Session:
    """One run in progress, with its folder and, if resumed, its earlier events."""

    run: store.Run
    problem: Problem
    terms: loop.Terms
    writer: store.Writer
    told: Listener
    stored: store.Resume | None = None
    budget: Budget = field(default_factory=lambda: Budget(Limits()))

    def __post_init__(self) -> None:
        self._narrated = _Narrated(self)

    def note(self, event: RetryScheduled) -> None:
        """Write and report a retry, which the loop does not see. Called in the thread that asks.

        Raises BudgetExceeded if the budget has no room for another request.
        """
        number = ROUND.get()
        self._narrated.append(event.model_copy(update={"round": number}))
        if number is not None:
            self.budget.asks_again(number)

    def solve(self, provider: Provider, executor: Executor) -> RunFinished:
        """Run the loop to its end and write the outcome.

        Raises EndpointError if the endpoint failed and nothing is verified. Raises EnvironmentFault if
        judging failed, and Interrupted on Ctrl-C. The run can then be resumed.
        """
        transcript: Transcript = self._narrated
        confirmer: Confirmer = Beside(self.problem, executor)
        pace: Pace = self.budget
        provider = _Paid(provider, self.budget)
        if self.stored is None:
            self.writer.append(
                RunStarted(
                    problem=self.problem, provider=provider.name, executor=executor.name,
                    rounds=self.terms.rounds, patience=self.terms.patience, search=self.terms.search,
                )
            )  # fmt: skip
        else:
            provider, executor = self.stored.provider(provider), self.stored.executor(executor)
            transcript, confirmer = self.stored.transcript(transcript), self.stored.confirmer(confirmer)
            pace = self.stored.pace(pace)
        try:
            pacing = Pacing(confirmer, pace)
            best = loop.solve(self.problem, provider, executor, transcript, self.terms, pacing)
        except KeyboardInterrupt:
            self._finish("interrupted", "stopped by Ctrl-C")
            raise Interrupted(f"interrupted; go on with: agent run --resume {self.run.id}") from None
        except Interrupted as stopped:
            self._finish("interrupted", str(stopped))
            raise Interrupted(f"{stopped}; go on with: agent run --resume {self.run.id}") from None
        except (AwaitingAnswers, AwaitingGpu) as error:
            self._finish("interrupted", str(error))
            raise type(error)(f"{error}; go on with: agent run --resume {self.run.id}") from error
        except BudgetExceeded:
            best = self.best()
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
        return self._ended(best)

    def _ended(self, best: Attempt | None) -> RunFinished:
        """Write and return the outcome of a search that finished or reached a limit."""
        ended = self.budget.refused
        if best is not None:
            why = f"; {ended}" if ended else ""
            return self._finish("verified", f"attempt {best.number} is {brief(best)}{why}")
        if ended:
            return self._finish("budget", f"nothing is verified, and {ended}")
        return self._finish("no_kernel", f"no verified kernel in {self.budget.spent.rounds} rounds")

    def best(self) -> Attempt | None:
        """Return the best verified attempt of the run on disk."""
        return ranking.best_of(self.run.read().attempts, None)

    def _finish(self, outcome: Outcome, reason: str) -> RunFinished:
        best = self.best()
        if best is not None and best.evaluation.unconfirmed and self.terms.confirm == "none":
            self.told.say(f"attempt {best.number} is not confirmed: this run makes no second look")
        number = best.number if best else None
        finished = RunFinished(outcome=outcome, best=number, reason=reason, spent=self.budget.spent)
        self.writer.append(finished)
        return finished


class _Paid:
    """A provider that adds the cost to each answer and checks the budget before each request."""

    def __init__(self, inner: Provider, budget: Budget) -> None:
        self._inner, self._budget = inner, budget

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, prompt: Prompt) -> Completion:
        number = ROUND.get()
        if number is not None:
            self._budget.asks_again(number)
        return self._budget.tariff.priced(self._inner.complete(prompt))


class _Narrated:
    """Writes each event, updates best.py and the budget, and reports the event in one line."""

    def __init__(self, session: Session) -> None:
        self._session, self._told = session, session.told
        self._best = session.best() if session.stored else None
        self._lock = threading.Lock()

    def append(self, event: Event) -> None:
        with self._lock:
            self._write(event)

    def _write(self, event: Event) -> None:
        budget = self._session.budget
        if isinstance(event, Prompted):
            event = event.model_copy(update={"seconds": budget.elapsed()})
        self._session.writer.append(event)
        budget.take(event)
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
            used = self._session.budget.told()
            self._told.say(f"round {event.round}: answer of {size}{'; ' if used else ''}{used}")
        elif isinstance(event, ReplyRejected):
            self._told.say(f"round {event.round}: no candidate: {event.feedback.text.splitlines()[0]}")
        elif isinstance(event, RetryScheduled):
            self._told.say(f"asking again in {event.wait_seconds:.1f} s: {event.reason}")
        elif isinstance(event, Unjudged):
            self._told.warn(
                f"round {event.round}: attempt {event.number} could not be judged: {event.reason}"
                f"{_FOLLOWS[event.then]}"
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
        """Return the result of a second look as one line. After a refusal it names the fallback attempt."""
        found = event.evaluation
        if not found.withdrawn:
            seconds = f" in {event.seconds:.0f} s" if event.seconds is not None else ""
            end = "is confirmed by a second look" if event.outcome == "confirmed" else _DOUBTFUL
            return f"attempt {event.number} {end}{seconds}: {told(found)}"
        cause = f"{found.headline.kind}: {found.headline.message}" if found.headline else str(found.status)
        left = f"the best is attempt {self._best.number} again" if self._best else "nothing else is verified"
        return f"attempt {event.number} is withdrawn, a second look refused it: {cause}; {left}"
