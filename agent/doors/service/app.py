"""The routes. Every refusal is one status and one line; what a client sends is bounded before it is read."""

import asyncio
import html
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from agent import __version__
from agent.api.service import About, Answer, Asked
from agent.doors.service.ledger import Full, Job, Ledger
from agent.doors.service.metrics import Metrics
from agent.doors.service.work import Judging, Workers
from agent.errors import AgentError
from agent.records import Record

LARGEST_REQUEST_BYTES = 4 * 2**20
LARGEST_CANDIDATE = 2**20
"""In characters."""
LONGEST_WAIT_S = 60.0
MOST_IN_A_BATCH = 256
_LOOK_S = 0.05


class Batch(Record):
    """Several jobs at once."""

    items: Annotated[tuple[Asked, ...], Field(max_length=MOST_IN_A_BATCH, min_length=1)]


class Accepted(Record):
    """The jobs of a batch, in its order."""

    jobs: tuple[Answer, ...]


class Health(Record):
    state: str
    queued: int
    running: int


class Limits(Record):
    """Whom the service answers, and how often."""

    tokens: frozenset[str]
    a_minute: int
    """Jobs that one token may ask for."""


class Desk:
    """What the routes share."""

    def __init__(self, ledger: Ledger, workers: Workers, judging: Judging, limits: Limits) -> None:
        self.ledger, self.workers, self._judging, self._limits = ledger, workers, judging, limits
        self.closing = False
        self._left: dict[str, tuple[float, float]] = {}
        """For each token how many jobs it may ask for, and as of when."""

    def token(self, request: Request) -> str:
        """The client's token. Raises HTTPException."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        found = [one for one in self._limits.tokens if secrets.compare_digest(one.encode(), given.encode())]
        if kind.lower() != "bearer" or not found:
            raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN")
        return found[0]

    def accept(self, asked: Asked, token: str) -> Answer:
        """The job, as it stands. Raises HTTPException."""
        if len(asked.candidate or "") > LARGEST_CANDIDATE:
            raise HTTPException(413, f"a candidate has at most {LARGEST_CANDIDATE} characters")
        try:
            job = Job(self._judging.name(asked), asked)
        except AgentError as error:
            raise HTTPException(422, str(error)) from error
        known = self.ledger.answer(job.id)
        if known is not None and known.state != "failed":
            return known
        self._count(token)
        try:
            self.ledger.accept(job)
        except Full:
            raise HTTPException(503, "the queue is full; ask again later", {"retry-after": "10"}) from None
        return self.ledger.answer(job.id) or Answer(id=job.id, state="queued")

    def _count(self, token: str) -> None:
        most, now = float(self._limits.a_minute), time.monotonic()
        left, then = self._left.get(token, (most, now))
        left = min(most, left + (now - then) * most / 60)
        if left < 1:
            raise HTTPException(429, "too many jobs a minute; ask again later", {"retry-after": "5"})
        self._left[token] = (left - 1, now)

    async def awaited(self, name: str, seconds: float) -> Answer:
        """What has come of a job, waited for so long. Raises HTTPException for one that there is not."""
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
        """Each step of a job as it is begun, and its end."""
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


def build(desk: Desk, about: About, metrics: Metrics) -> ASGIApp:
    """The application; its workers run while it does."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        desk.workers.start()
        yield
        desk.closing = True
        await asyncio.to_thread(desk.workers.stop)

    app = FastAPI(
        title="Kernelwright judge", version=__version__, docs_url=None, redoc_url=None, lifespan=running
    )
    app.add_exception_handler(RequestValidationError, _unfit)
    _add_jobs(app, desk)
    _add_state(app, desk, about, metrics)
    return _Bounded(app)


def _add_jobs(app: FastAPI, desk: Desk) -> None:
    Token = Annotated[str, Depends(desk.token)]

    @app.post("/v1/evaluations", status_code=202)
    def evaluate(asked: Asked, token: Token) -> Answer:
        """Judge a candidate, or prepare a problem; asking again for the same gives the same job."""
        return desk.accept(asked, token)

    @app.post("/v1/batches", status_code=202)
    def batch(asked: Batch, token: Token) -> Accepted:
        """Several at once; where one is refused, those before it are accepted."""
        return Accepted(jobs=tuple(desk.accept(one, token) for one in asked.items))

    @app.get("/v1/evaluations/{name}")
    async def answer(
        name: str, token: Token, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0
    ) -> Answer:
        """What has come of a job, waited for so many seconds."""
        return await desk.awaited(name, wait)

    @app.get("/v1/evaluations/{name}/events")
    async def events(name: str, token: Token) -> StreamingResponse:
        """Server-sent events: each step, then `done` or `failed`."""
        if desk.ledger.state(name) is None:
            raise HTTPException(404, "there is no such job")
        return StreamingResponse(desk.events(name), media_type="text/event-stream")

    @app.get("/v1/jobs")
    def jobs(token: Token, most: Annotated[int, Query(ge=1, le=1000)] = 100) -> Accepted:
        """The newest jobs first, without their verdicts."""
        return Accepted(jobs=tuple(Answer(id=name, state=state) for name, state in desk.ledger.listed(most)))


def _add_state(app: FastAPI, desk: Desk, about: About, metrics: Metrics) -> None:
    Token = Annotated[str, Depends(desk.token)]

    @app.get("/v1/about")
    def told(token: Token) -> About:
        """What candidates are judged on."""
        return about

    @app.get("/health")
    def health() -> Health:
        """Whether the service answers, and how much waits; needs no token."""
        counts = desk.ledger.counts()
        return Health(state="ok", queued=counts["queued"], running=counts["running"])

    @app.get("/metrics", response_class=PlainTextResponse)
    def measured(token: Token) -> Response:
        """For Prometheus."""
        return Response(metrics.text(desk.ledger.counts()), media_type="text/plain; version=0.0.4")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return _page(app.openapi())


def _page(schema: dict[str, Any]) -> str:
    """The routes in a table, without anything from elsewhere."""
    rows = "".join(
        f"<tr><td>{method.upper()}<td><code>{html.escape(path)}</code><td>{html.escape(one['description'])}"
        for path, methods in schema["paths"].items()
        for method, one in methods.items()
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>{schema['info']['title']}</title><h1>Judge service</h1>"
        f"<p>Schema: <a href=openapi.json>openapi.json</a><table>{rows}</table>"
    )


async def _unfit(request: Request, error: Exception) -> JSONResponse:
    """Where and what does not fit, without the value: it is the client's, and may be no text."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))[:200].encode("utf-8", "replace").decode()
    return JSONResponse({"detail": f"{where}: {first['msg'][:300]}"}, 422)


class _Bounded:
    """Refuses a body without a length, or too long, before any of it is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            headers = dict(scope["headers"])
            given = headers.get(b"content-length", b"")
            refused: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None
            if not given.isdigit() or b"transfer-encoding" in headers:
                refused = JSONResponse({"detail": "a body needs its content-length"}, 411)
            elif int(given[:20]) > LARGEST_REQUEST_BYTES:
                refused = JSONResponse({"detail": f"more than {LARGEST_REQUEST_BYTES >> 20} MiB"}, 413)
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
