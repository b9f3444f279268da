"""Current verdicts of a run's attempts, and the second looks that run in parallel with the search.

A candidate that the first look verified counts at once as unconfirmed, and the next prompt is sent. Second
looks run one at a time. Whenever none is running, the best attempt gets one if it is unconfirmed. An attempt
that a better one replaces before its look starts gets none. A look that has started is always finished, since
the run falls back on the attempt that it confirms. A run may defer second looks to its end, or make none.
"""

import threading
import time
from concurrent.futures import Future

from agent import gpu_build, ranking
from agent.errors import AwaitingGpu, EnvironmentFault, defect
from agent.protocols import Confirmer, Executor, Look, Transcript
from agent.records import Attempt, ConfirmPolicy, Evaluation, Problem, SecondLook, Unconfirmed


class Beside:
    """A `Confirmer` that makes the executor's second looks, each in a thread beside the search.

    The threads are daemons: after Ctrl-C they end with the process, and their judges with them.
    """

    def __init__(self, problem: Problem, executor: Executor) -> None:
        self._problem, self._executor = problem, executor
        self._end: Future[Look] = Future()

    def begin(self, attempt: Attempt) -> None:
        self._end = Future()
        threading.Thread(target=self._look, args=(attempt, self._end), daemon=True).start()

    def ready(self) -> bool:
        return self._end.done()

    def outcome(self) -> Look:
        return self._end.result()

    def _look(self, attempt: Attempt, end: "Future[Look]") -> None:
        started = time.monotonic()
        found: Evaluation | EnvironmentFault
        try:
            found = self._executor.confirm(self._problem, attempt.candidate, attempt.evaluation)
            if found.unconfirmed:
                raise defect("the executor", "its second look neither confirmed nor refused")
        except EnvironmentFault as fault:
            found = fault
        except BaseException as error:  # noqa: BLE001 - raised where the outcome is asked for
            end.set_exception(error)
            return
        end.set_result(Look(found, round(time.monotonic() - started, 3)))


class Standing:
    """The attempts of a run, each with its current verdict.

    Events of second looks are written in the caller's thread, between two steps of the search. A resumed run
    can therefore repeat them in the same place.
    """

    def __init__(self, transcript: Transcript, confirmer: Confirmer, policy: ConfirmPolicy = "best") -> None:
        self._transcript, self._confirmer, self._policy = transcript, confirmer, policy
        self._attempts: dict[int, Attempt] = {}
        self._rounds: dict[int, int] = {}
        self._looked_at: int | None = None
        self._in_vain: set[int] = set()
        """Attempts whose second look failed with an infrastructure fault."""
        self._elsewhere: AwaitingGpu | None = None
        """Error of the first second look that needs another machine, or None."""

    @property
    def best(self) -> Attempt | None:
        """Return the best verified attempt, confirmed or not, or None."""
        return ranking.best_of((self._attempts[number] for number in sorted(self._attempts)), None)

    def add(self, number: int, line: tuple[Attempt, ...]) -> None:
        """Add the attempts of one round and start the second look that is due."""
        for attempt in line:
            self._attempts[attempt.number], self._rounds[attempt.number] = attempt, number
        self._begin(self._due())

    def take_up(self) -> list[Attempt]:
        """Record the second looks that have ended and return the attempts that they withdraw.

        A look that needs another machine is left to that machine. The search continues without it.
        """
        withdrawn = []
        while self._looked_at is not None and self._confirmer.ready():
            try:
                look = self._confirmer.outcome()
            except AwaitingGpu as error:
                self._looked_at, self._elsewhere = None, error
            else:
                withdrawn += self._told(look)
        return withdrawn

    def settle(self) -> list[Attempt]:
        """Wait until the best attempt is confirmed and return the attempts withdrawn until then.

        Returns at once in a run without second looks. Raises EnvironmentFault if a second look fails again on
        its second try, and AwaitingGpu if another machine has to make it.
        """
        withdrawn: list[Attempt] = []
        if self._policy == "none":
            return withdrawn
        while True:
            while self._looked_at is not None:
                withdrawn += self._told(self._confirmer.outcome())
            best = self.best
            if best is None or not best.evaluation.unconfirmed:
                return withdrawn
            if self._elsewhere:
                raise self._elsewhere
            self._begin(best)
            look = self._confirmer.outcome()
            if isinstance(look.found, EnvironmentFault) and best.number in self._in_vain:
                # This fault has no event, so that a resumed run makes the look again.
                raise look.found
            withdrawn += self._told(look)

    def _told(self, look: Look) -> list[Attempt]:
        """Record the end of the current look and return its attempt if it was withdrawn."""
        number, self._looked_at = self._looked_at, None
        assert number is not None
        place, found = self._rounds[number], look.found
        if isinstance(found, EnvironmentFault):
            self._transcript.append(
                Unconfirmed(
                    round=place, number=number, reason=str(found), details=found.details, seconds=look.seconds
                )
            )
            self._in_vain.add(number)
        else:
            self._transcript.append(
                SecondLook(round=place, number=number, evaluation=found, seconds=look.seconds)
            )
            self._attempts[number] = self._attempts[number].model_copy(update={"evaluation": found})
        self._begin(self._due())
        attempt = self._attempts[number]
        return [attempt] if attempt.evaluation.withdrawn else []

    def _begin(self, attempt: Attempt | None) -> None:
        if attempt is not None and self._looked_at is None:
            self._looked_at = attempt.number
            self._confirmer.begin(attempt)

    def _due(self) -> Attempt | None:
        """Return the next attempt for a second look: the best, else one that may be faster than measured."""
        if self._elsewhere or self._policy != "best":
            return None
        best = self.best
        held_up = (
            attempt for attempt in self._attempts.values() if _held_up_by_its_build(attempt.evaluation)
        )
        wanted = (*([best] if best else []), *held_up)
        return next((a for a in wanted if a.evaluation.unconfirmed and a.number not in self._in_vain), None)


def _held_up_by_its_build(found: Evaluation) -> bool:
    """Return True if a build by stock `load_inline` may be faster, as its operators cost less host time."""
    times, build = found.measurement, found.build
    return bool(times and times.host_bound and build and build.backend == gpu_build.BACKEND)
