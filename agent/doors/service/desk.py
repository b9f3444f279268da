"""Shared state of the routes: tokens, rate limits, and waiting for a job."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator

from fastapi import HTTPException, Request

from agent.api.service import Answer, Asked
from agent.doors.service.ledger import Full, Job, Ledger
from agent.doors.service.work import Judging, Workers
from agent.errors import AgentError
from agent.records import Record

LARGEST_CANDIDATE = 2**20
"""Maximum length of a candidate, in characters."""
LONGEST_WAIT_S = 60.0
_LOOK_S = 0.05


class Limits(Record):
    """Accepted tokens and their rate limit."""

    tokens: frozenset[str]
    a_minute: int
    """New jobs and prompts per minute and token."""


class Desk:
    """Queue, limits and waiting clients, shared by all routes."""

    def __init__(self, ledger: Ledger, workers: Workers, judging: Judging, limits: Limits) -> None:
        self.ledger, self.workers, self.judging, self._limits = ledger, workers, judging, limits
        self.closing = False
        self._left: dict[str, tuple[float, float]] = {}
        """Token -> (jobs that its client may still request, time in seconds when this was computed)."""

    def token(self, request: Request) -> str:
        """Return the valid token in a request's header. Raises HTTPException if there is none."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        found = [one for one in self._limits.tokens if secrets.compare_digest(one.encode(), given.encode())]
        if kind.lower() != "bearer" or not found:
            raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN")
        return found[0]

    def accept(self, asked: Asked, token: str) -> Answer:
        """Accept a job and return its current state. Raises HTTPException."""
        if len(asked.candidate or "") > LARGEST_CANDIDATE:
            raise HTTPException(413, f"a candidate has at most {LARGEST_CANDIDATE} characters")
        try:
            job = Job(self.judging.name(asked), asked)
        except AgentError as error:
            raise HTTPException(422, str(error)) from error
        known = self.ledger.answer(job.id)
        if known is not None and known.state != "failed":
            return known
        self.count(token)
        try:
            self.ledger.accept(job)
        except Full:
            raise HTTPException(503, "the queue is full; ask again later", {"retry-after": "10"}) from None
        return self.ledger.answer(job.id) or Answer(id=job.id, state="queued")

    def count(self, token: str) -> None:
        """Count a request that is limited per minute. Raises HTTPException for too many."""
        most, now = float(self._limits.a_minute), time.monotonic()
        left, then = self._left.get(token, (most, now))
        left = min(most, left + (now - then) * most / 60)
        if left < 1:
            raise HTTPException(429, "too many jobs a minute; ask again later", {"retry-after": "5"})
        self._left[token] = (left - 1, now)

    async def awaited(self, name: str, seconds: float) -> Answer:
        """Return the result of a job, waiting up to `seconds`. Raises HTTPException if it does not exist."""
        until = time.monotonic() + min(seconds, LONGEST_WAIT_S)
        while not self.closing:
            state = self.ledger.state(name)
            if state not in ("queued", "running") or time.monotonic() > until:
                break
            await asyncio.sleep(_LOOK_S)
        answer = self.ledger.answer(name)
        if answer is None:
            raise HTTPException(404, "there is no such job")
        return answer

    async def events(self, name: str) -> AsyncIterator[str]:
        """Yield each step of a job when it begins, and then its end."""
        told = ""
        while not self.closing:
            state = self.ledger.state(name)
            step = self.workers.steps.get(name, str(state))
            if step != told:
                told = step
                yield f"event: step\ndata: {' '.join(step.split())}\n\n"
            if state not in ("queued", "running"):
                yield f"event: {state}\ndata: {name}\n\n"
                return
            await asyncio.sleep(_LOOK_S)
