"""Retries of failed requests and the waits between them.

Contract: tenacity makes every retry. The SDK's own retries are off, since retries at two layers would
multiply. This module knows no HTTP: the caller decides which faults are transient.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from agent.records import RetryScheduled

# This wait limits retries to about 20 in five minutes, even if the server always asks for no wait.
_SHORTEST_WAIT_S = 0.05


@dataclass(frozen=True)
class Waits:
    """Limits on the retries of one request."""

    retry_for_s: float = 300.0
    """Time from the first failure during which the request is retried, in seconds."""
    longest_s: float = 60.0
    """Maximum exponential wait in seconds. A wait that the server asks for may be longer."""


class RequestFailed(Exception):
    """A request without a complete answer. The message holds no secret."""

    def __init__(
        self, what: str, *, mend: str, transient: bool, wait_s: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        """Description of the failure in one line."""
        self.mend = mend
        """Advice for the user on how to fix the failure."""
        self.transient = transient
        self.wait_s = wait_s
        """Wait that the server asked for, in seconds."""
        self.status = status
        self.begun = False
        """True if the server may have started an answer, which has to be paid for."""
        self.parameter = ""
        """Refused parameter, if the server names it in a separate field."""
        self.detail = what
        """The server's message, longer than in `what`."""


def _failure(state: RetryCallState) -> RequestFailed:
    failure = state.outcome.exception() if state.outcome else None
    if not isinstance(failure, RequestFailed):
        raise TypeError(f"only a RequestFailed is retried, not {failure!r}")
    return failure


def retrying(waits: Waits, on_retry: Callable[[RetryScheduled], None]) -> Retrying:
    """Return the retry policy of one request. `on_retry` is called before each wait.

    The time limit counts from the first failure instead of the start, so that a stream which broke after
    minutes is retried too.
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
