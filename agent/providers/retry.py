"""When a failed request is asked again, and after which wait.

Contract: tenacity owns every retry (the SDK's own are switched off, two layers would multiply).
Nothing here knows HTTP: `faults` decides what is transient.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from agent.records import RetryScheduled

# A server that says "at once" every time is still not asked more than about 20 times in five minutes.
_SHORTEST_WAIT_S = 0.05


@dataclass(frozen=True)
class Waits:
    """How long a request is tried again."""

    retry_for_s: float = 300.0
    """From the first failure on."""
    longest_s: float = 60.0
    """Cap of the exponential waits; a wait that the other side names may be longer."""


class RequestFailed(Exception):
    """One request that brought no whole answer; its words hold no secret."""

    def __init__(
        self, what: str, *, mend: str, transient: bool, wait_s: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        """One line: what happened."""
        self.mend = mend
        """What the user can do about it."""
        self.transient = transient
        self.wait_s = wait_s
        """The wait that the server asked for."""
        self.status = status
        self.begun = False
        """Whether an answer may have been begun, which has to be paid for."""
        self.parameter = ""
        """The parameter that the server refused, where it says so in a field of its own."""
        self.detail = what
        """The server's words at greater length than `what`."""


def _failure(state: RetryCallState) -> RequestFailed:
    failure = state.outcome.exception() if state.outcome else None
    if not isinstance(failure, RequestFailed):
        raise TypeError(f"only a RequestFailed is retried, not {failure!r}")
    return failure


def retrying(waits: Waits, on_retry: Callable[[RetryScheduled], None]) -> Retrying:
    """The retries of one request; on_retry hears of each before its wait.

    The time limit counts from the first failure, not from the start: a stream that broke after
    minutes deserves a second try as much as one that broke at once.
    """
    backoff = wait_random_exponential(multiplier=1, max=waits.longest_s)
    first_failure: list[float] = []

    def wait(state: RetryCallState) -> float:
        asked = _failure(state).wait_s
        if asked is None:
            return backoff(state)
        doubled = _SHORTEST_WAIT_S * 2.0 ** min(state.attempt_number - 1, 30)
        return max(asked, min(doubled, waits.longest_s))

    def stop(state: RetryCallState) -> bool:
        now = state.outcome_timestamp or 0.0
        first_failure[:] = first_failure or [now]
        return now - first_failure[0] + state.upcoming_sleep > waits.retry_for_s

    def announce(state: RetryCallState) -> None:
        on_retry(
            RetryScheduled(
                reason=_failure(state).what,
                wait_seconds=round(state.upcoming_sleep, 3),
                tries=state.attempt_number,
                begun=_failure(state).begun,
            )
        )

    return Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, RequestFailed) and error.transient),
        wait=wait,
        stop=stop,
        before_sleep=announce,
        reraise=True,
    )
