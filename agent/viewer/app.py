"""Routes of the server: the list of runs, a run, its parts, its raw texts, and live updates.

The server answers only requests for its own address, so a page elsewhere whose name resolves to 127.0.0.1
gets nothing. It only reads. Every page has a policy under which only this package's script and style can run
or load. A run is named by a folder's name, never by a path.
"""

from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent import resources, store
from agent.bench import Bench
from agent.errors import AgentError
from agent.store.folder import MANIFEST, RECORDED
from agent.store.writer import EVENTS, is_being_written
from agent.viewer import pages
from agent.viewer.bench_view import OF_A_BENCH, BenchView, sizes
from agent.viewer.bench_view import seen as bench_seen
from agent.viewer.export import asset
from agent.viewer.run_view import RunView
from agent.viewer.runs_list import Query, href, select

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = {"viewer.css": "text/css", "viewer.js": "text/javascript", "icon.svg": "image/svg+xml"}
LOOK_S = 0.25
"""Seconds between checks of a running run's transcript."""
LOOK_AT_ALL_S = 1.0
"""Seconds between checks of all runs of a bench."""
LONGEST_NAME = 255
"""Maximum length of a file name on Linux in bytes."""


class Site:
    """Handlers for the runs of a folder, the recorded runs, and a run that the user named by its path."""

    def __init__(self, runs_dir: Path, given: store.Run | Bench | None, stopping: Callable[[], bool]) -> None:
        """Create the handlers; for a bench, `runs_dir` is the folder of its runs.

        `stopping` returns True once the server ends, which ends every stream.
        """
        self._runs_dir, self._stopping = runs_dir, stopping
        self._given = given if isinstance(given, store.Run) else None
        self._bench = given if isinstance(given, Bench) else None

    def routes(self) -> list[Route]:
        return [
            Route("/", self.runs),
            Route("/run/{name}", self.run),
            Route("/run/{name}/part/{anchor}", self.part),
            Route("/run/{name}/raw/{text}", self.raw),
            Route("/run/{name}/live", self.live),
            Route(OF_A_BENCH, self.bench),
            Route(f"{OF_A_BENCH}/live", self.bench_live),
            Route("/static/{file}", _static),
        ]

    def runs(self, request: Request) -> Response:
        query = Query.of(request.query_params)
        listed = select(self._summaries(), query)
        return HTMLResponse(pages.runs_page(listed, query, str(self._runs_dir), self._bench))

    def run(self, request: Request) -> Response:
        view = self._view(request)
        if view is None:
            return _nothing("There is no such run", request.path_params["name"])
        base = href(view.run.id)
        live = f"{base}/live?seen={_size(view.run)}" if view.state == "running" else None
        return HTMLResponse(pages.run_page(view, base, live))

    def part(self, request: Request) -> Response:
        view = self._view(request)
        step = view.step(request.path_params["anchor"]) if view else None
        if view is None or step is None:
            return _nothing("There is no such attempt", request.path_params["anchor"])
        return HTMLResponse(pages.part_page(view, step, href(view.run.id)))

    def raw(self, request: Request) -> Response:
        """Return a stored text as an attachment, so that no browser shows or runs it."""
        view, name = self._view(request), request.path_params["text"]
        found = view.text(name) if view else None
        if found is None:
            return _nothing("There is no such text", name)
        return PlainTextResponse(
            found.encode("utf-8", "replace"),
            headers={"content-disposition": f'attachment; filename="{name}.txt"'},
        )

    def bench(self, request: Request) -> Response:
        if self._bench is None:
            return _nothing("There is no bench here", request.url.path)
        size = sizes(self._bench)
        view = _bench_seen(self._bench, size)
        live = f"{OF_A_BENCH}/live?seen={size}" if view.going_on else None
        return HTMLResponse(pages.bench_page(view, live))

    async def bench_live(self, request: Request) -> Response:
        """Stream `changed` whenever a run of the bench grows; ends only with the server."""
        if self._bench is None:
            return _nothing("There is no bench here", request.url.path)
        return StreamingResponse(
            self._news_of_bench(self._bench, _seen_before(request)), media_type="text/event-stream"
        )

    async def _news_of_bench(self, bench: Bench, seen: int) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        while not self._stopping():
            size = await run_in_threadpool(sizes, bench)
            if size != seen:
                seen = size
                yield f"event: changed\ndata: {size}\n\n"
            await anyio.sleep(LOOK_AT_ALL_S)

    async def live(self, request: Request) -> Response:
        """Stream `changed` whenever the transcript grows, and `ended` once no process writes it."""
        run = await run_in_threadpool(self._find, request.path_params["name"])
        if run is None:
            return _nothing("There is no such run", request.path_params["name"])
        return StreamingResponse(self._news(run, _seen_before(request)), media_type="text/event-stream")

    async def _news(self, run: store.Run, seen: int) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        while not self._stopping():
            # The lock is checked before the size, so that the size includes the last events once the lock is
            # free.
            going_on = await run_in_threadpool(is_being_written, run.path)
            size = _size(run)
            if size != seen:
                seen = size
                yield f"event: changed\ndata: {size}\n\n"
            if not going_on:
                yield "event: ended\ndata: \n\n"
                return
            await anyio.sleep(LOOK_S)

    def _summaries(self) -> list[store.RunSummary]:
        own = store.list_runs(self._runs_dir)
        there = {run.id for run in own}
        return own + [run for run in store.recorded_runs() if run.id not in there]

    def _find(self, name: str) -> store.Run | None:
        if self._given is not None and name == self._given.id:
            return self._given
        if name in ("", ".", "..") or {"/", "\0"} & set(name) or len(name.encode()) > LONGEST_NAME:
            return None
        shipped = resources.folder("recorded")
        for folder, address in ((self._runs_dir, name), (shipped, RECORDED + name)):
            path = folder / name
            if (path / EVENTS).is_file() or (path / MANIFEST).is_file():
                return store.Run(path, address)
        return None

    def _view(self, request: Request) -> RunView | None:
        run = self._find(request.path_params["name"])
        if run is None:
            return None
        # The state is read before the log, so that later events count as updates and are not lost.
        going_on = is_being_written(run.path)
        return _seen(run, _size(run), going_on)


def build(site: Site, hosts: frozenset[str]) -> ASGIApp:
    """Return the application, which answers GET and HEAD for `hosts`, written as browsers send them."""
    return _Guard(
        Starlette(routes=site.routes(), exception_handlers={404: _missing, AgentError: _fault}), hosts
    )


class _Guard:
    """Middleware that checks the Host header before anything else and adds HEADERS to every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message["headers"] if k.decode() not in HEADERS]
                message["headers"] = kept + [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            await send(message)

        if scope["type"] != "http":
            return
        given = [value.decode("latin-1").lower() for key, value in scope["headers"] if key == b"host"]
        app = self._app
        if len(given) != 1 or given[0] not in self._hosts:
            app = PlainTextResponse("This server answers to its own address only.\n", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            app = PlainTextResponse("Only GET.\n", 405)
        await app(scope, receive, sending)


@lru_cache(maxsize=4)
def _seen(run: store.Run, size: int, going_on: bool) -> RunView:
    """Return the run at a size of its transcript, which only ever grows."""
    log = run.read()
    return RunView(run, log, "running" if going_on else store.state_of(run, log))


@lru_cache(maxsize=1)
def _bench_seen(bench: Bench, size: int) -> BenchView:
    """Return the bench; `size`, the bytes of its runs, is the cache key."""
    return bench_seen(bench)


def _seen_before(request: Request) -> int:
    """Return the transcript size from which the page was made."""
    seen = request.query_params.get("seen", "")
    return int(seen) if seen.isdecimal() and len(seen) < 19 else 0


def _size(run: store.Run) -> int:
    try:
        return (run.path / EVENTS).stat().st_size
    except OSError:
        return 0


def _static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in STATIC:
        return _nothing("There is no such file", name)
    return Response(asset(name), media_type=STATIC[name])


def _nothing(title: str, name: str) -> Response:
    return HTMLResponse(pages.message_page(title, name[:200]), 404)


def _missing(request: Request, error: Exception) -> Response:
    return _nothing("There is no such page", request.url.path)


def _fault(request: Request, error: Exception) -> Response:
    return HTMLResponse(pages.message_page("This cannot be shown", str(error)), 500)
