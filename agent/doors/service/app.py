"""HTTP routes of the service.

A refusal is one status code and one line; a request's size is checked before it is read.
"""

import asyncio
import html
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
from agent.doors.service.desk import LONGEST_WAIT_S, Desk
from agent.doors.service.metrics import Metrics
from agent.doors.service.scoring import add_scores
from agent.records import Record

LARGEST_REQUEST_BYTES = 4 * 2**20
MOST_IN_A_BATCH = 256


class Batch(Record):
    """Several jobs in one request."""

    items: Annotated[tuple[Asked, ...], Field(max_length=MOST_IN_A_BATCH, min_length=1)]


class Accepted(Record):
    """Jobs of a batch, in its order."""

    jobs: tuple[Answer, ...]


class Health(Record):
    state: str
    queued: int
    running: int


def build(desk: Desk, about: About, metrics: Metrics) -> ASGIApp:
    """Build the application; its workers run as long as it does."""

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
    add_scores(app, desk)
    _add_state(app, desk, about, metrics)
    return _Bounded(app)


def _add_jobs(app: FastAPI, desk: Desk) -> None:
    Token = Annotated[str, Depends(desk.token)]

    @app.post("/v1/evaluations", status_code=202)
    def evaluate(asked: Asked, token: Token) -> Answer:
        """Judge a candidate, or prepare a problem; the same request again gives the same job."""
        return desk.accept(asked, token)

    @app.post("/v1/batches", status_code=202)
    def batch(asked: Batch, token: Token) -> Accepted:
        """Submit several jobs at once; if one is refused, those before it are accepted."""
        return Accepted(jobs=tuple(desk.accept(one, token) for one in asked.items))

    @app.get("/v1/evaluations/{name}")
    async def answer(
        name: str, token: Token, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0
    ) -> Answer:
        """Return the result of a job, waiting up to `wait` seconds for it."""
        return await desk.awaited(name, wait)

    @app.get("/v1/evaluations/{name}/events")
    async def events(name: str, token: Token) -> StreamingResponse:
        """Stream server-sent events: each step, then `done` or `failed`."""
        if desk.ledger.state(name) is None:
            raise HTTPException(404, "there is no such job")
        return StreamingResponse(desk.events(name), media_type="text/event-stream")

    @app.get("/v1/jobs")
    def jobs(token: Token, most: Annotated[int, Query(ge=1, le=1000)] = 100) -> Accepted:
        """List the newest jobs first, without their verdicts."""
        return Accepted(jobs=tuple(Answer(id=name, state=state) for name, state in desk.ledger.listed(most)))


def _add_state(app: FastAPI, desk: Desk, about: About, metrics: Metrics) -> None:
    Token = Annotated[str, Depends(desk.token)]

    @app.get("/v1/about")
    def told(token: Token) -> About:
        """Describe the machine and GPU that candidates are judged on."""
        return about

    @app.get("/health")
    def health() -> Health:
        """Report that the service is up, and how many jobs wait and run; needs no token."""
        counts = desk.ledger.counts()
        return Health(state="ok", queued=counts["queued"], running=counts["running"])

    @app.get("/metrics", response_class=PlainTextResponse)
    def measured(token: Token) -> Response:
        """Return metrics for Prometheus."""
        return Response(metrics.text(desk.ledger.counts()), media_type="text/plain; version=0.0.4")

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return _page(app.openapi())


def _page(schema: dict[str, Any]) -> str:
    """Return an HTML table of the routes, without external resources."""
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
    """Report the first invalid field without its value, which is the client's and may not be text."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))[:200].encode("utf-8", "replace").decode()
    return JSONResponse({"detail": f"{where}: {first['msg'][:300]}"}, 422)


class _Bounded:
    """Middleware that refuses a body that is too long or has no length, before reading it."""

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
