"""Which verdict stands on each attempt of a run, and the second looks that go on beside the search.

What the first look at a candidate verified stands at once, unconfirmed, and the next question is asked.
Second looks are made one at a time: whenever none goes on, the best attempt is looked at if it is
unconfirmed. A best that a better one follows before its look began is left out; a look that has begun is
brought to its end, since what it confirms is what the run falls back on. A run may leave second looks to its
end, or make none.
"""

import threading
import time
from concurrent.futures import Future

from agent import gpu_build, ranking
from agent.errors import AwaitingGpu, EnvironmentFault, defect
from agent.protocols import Confirmer, Executor, Look, Transcript
from agent.records import Attempt, ConfirmPolicy, Evaluation, Problem, SecondLook, Unconfirmed


class Beside:
    """A `Confirmer`: the executor's second looks, each in a thread beside the search.

    A thread whose end nobody waits for, as after Ctrl-C, ends with the process, and its judge with it.
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
    """The attempts of a run, each with the verdict that stands on it.

    Events of second looks are written by whoever calls, between two steps of the search and never during one:
    that they come in the same place again makes the run resumable.
    """

    def __init__(self, transcript: Transcript, confirmer: Confirmer, policy: ConfirmPolicy = "best") -> None:
        self._transcript, self._confirmer, self._policy = transcript, confirmer, policy
        self._attempts: dict[int, Attempt] = {}
        self._rounds: dict[int, int] = {}
        self._looked_at: int | None = None
        self._in_vain: set[int] = set()
        """Attempts whose second look a fault of ours kept from being made."""
        self._elsewhere: AwaitingGpu | None = None
        """Why no second look can be made on this machine, once that has shown."""

    @property
    def best(self) -> Attempt | None:
        """The best verified attempt, confirmed or not."""
        return ranking.best_of((self._attempts[number] for number in sorted(self._attempts)), None)

    def add(self, number: int, line: tuple[Attempt, ...]) -> None:
        """Takes in the attempts of one round, and begins the second look that they make due."""
        for attempt in line:
            self._attempts[attempt.number], self._rounds[attempt.number] = attempt, number
        self._begin(self._due())

    def take_up(self) -> list[Attempt]:
        """Writes down the second looks that have come to an end; gives the attempts that they withdraw.

        One that another machine has to make is left to it, and answers are taken in meanwhile.
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
        """Waits until the best is confirmed; gives the attempts that are withdrawn until then.

        Returns at once in a run without second looks.
        Raises EnvironmentFault where a second look cannot be made even when it is tried once more, and
        AwaitingGpu where another machine has to make it.
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
                # This one has no event: whoever resumes the run looks again.
                raise look.found
            withdrawn += self._told(look)

    def _told(self, look: Look) -> list[Attempt]:
        """Writes down how the look that went on has ended; the attempt, where it was withdrawn."""
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
        """What is looked at next: the best, then what may be faster than its first look says."""
        if self._elsewhere or self._policy != "best":
            return None
        best = self.best
        held_up = (
            attempt for attempt in self._attempts.values() if _held_up_by_its_build(attempt.evaluation)
        )
        wanted = (*([best] if best else []), *held_up)
        return next((a for a in wanted if a.evaluation.unconfirmed and a.number not in self._in_vain), None)


def _held_up_by_its_build(found: Evaluation) -> bool:
    """Whether stock `load_inline`, whose operators cost the host less, might make it faster."""
    times, build = found.measurement, found.build
    return bool(times and times.host_bound and build and build.backend == gpu_build.BACKEND)
