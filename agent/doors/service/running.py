"""Run a service from its settings to the end of its process."""

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from agent import __version__, sandbox
from agent.api.judge import architecture, require_isolation
from agent.api.listening import Listener
from agent.api.service import About
from agent.config import Settings
from agent.doors.listening import LOOPBACK, listening
from agent.doors.service.app import build
from agent.doors.service.desk import Desk, Limits
from agent.doors.service.ledger import Ledger
from agent.doors.service.metrics import Metrics
from agent.doors.service.work import Here, Judging, Workers
from agent.errors import EnvironmentFault, UsageError
from agent.executors import choose, gpu_name
from agent.records import Record

TOKENS = "tokens"
"""File in the service's folder with one token a line, readable only by the user."""
SHORTEST_TOKEN = 16
MOST_BESIDE = 1_000_000
"""Limit on queued jobs, and on new jobs per minute, for clients on this machine. In effect there is none."""


class Plan(Record):
    """Address, folder and limits of a service."""

    folder: Path
    """Folder for its queue, references and tokens."""
    host: str
    port: int
    jobs: int
    most_queued: int
    a_minute: int
    trusts_references: bool = False
    cluster: str = ""
    """Address of the Ray cluster that judges; if empty, this machine judges."""


def serve(settings: Settings, plan: Plan, ready: Callable[[str], None], told: Listener | None = None) -> None:
    """Serve and call `ready` with the address once it can be reached; returns when told to end.

    Raises EnvironmentFault if candidates cannot be isolated, UsageError for an address that is taken.
    """
    if settings.service is not None:
        raise UsageError("a service judges on this machine; set the executor to auto, cuda or emulator")
    settings = settings.model_copy(update={"sandbox": "require"})
    with _judges(settings, plan, told or Listener()) as (judging, about):
        limits = Limits(tokens=tokens(plan.folder), a_minute=plan.a_minute)
        with listening(plan.host, plan.port) as listener:
            ledger, metrics = Ledger(plan.folder / "jobs.sqlite", plan.most_queued), Metrics()
            desk = Desk(ledger, Workers(ledger, judging, plan.jobs, metrics.done), judging, limits)
            with suppress(KeyboardInterrupt):
                host, port = listener.getsockname()[:2]
                ready(f"http://{host}:{port}")
                server(build(desk, about, metrics), desk).run(sockets=[listener])
            ledger.close()


@contextmanager
def _judges(settings: Settings, plan: Plan, told: Listener) -> Iterator[tuple[Judging, About]]:
    """Yield the judges of this machine or of a cluster."""
    if plan.cluster:
        from agent.doors.cluster import rays
        from agent.doors.cluster.running import judges

        with judges(rays.Rays(plan.cluster), settings, plan.folder, plan.trusts_references, told) as found:
            yield found.judging, found.about
        return
    require_isolation(settings, Listener())
    executor = choose(settings.executor)
    gpu = gpu_name() if executor == "cuda" else None
    about = About(
        version=__version__, executor=executor, gpu=gpu, architecture=architecture(settings),
        isolation=sandbox.strongest().name,
    )  # fmt: skip
    yield Here(settings, plan.folder, f"{executor} {gpu}", plan.trusts_references), about


@contextmanager
def beside(judging: Judging, about: About, folder: Path, jobs: int) -> Iterator[tuple[str, str]]:
    """Run a service in a thread of this process for its children; yields its address and its token.

    Raises EnvironmentFault if another process uses the folder.
    """
    token, metrics = secrets.token_urlsafe(32), Metrics()
    ledger = Ledger(folder / "jobs.sqlite", MOST_BESIDE)
    limits = Limits(tokens=frozenset({token}), a_minute=MOST_BESIDE)
    desk = Desk(ledger, Workers(ledger, judging, jobs, metrics.done), judging, limits)
    with closing(ledger), listening(LOOPBACK, 0) as listener:
        served = server(build(desk, about, metrics), desk)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}", token
        finally:
            served.handle_exit()
            thread.join()


def server(app: ASGIApp, desk: Desk) -> "Server":
    """Return a server that releases clients waiting for an answer when it is told to end."""
    return Server(
        desk,
        uvicorn.Config(
            app, log_level="warning", access_log=False, ws="none", server_header=False,
            timeout_graceful_shutdown=5, backlog=2048,
        ),
    )  # fmt: skip


class Server(uvicorn.Server):
    def __init__(self, desk: Desk, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._desk = desk

    def handle_exit(self, *given: object) -> None:
        self._desk.closing = True
        self.should_exit = True


def tokens(folder: Path) -> frozenset[str]:
    """Return the tokens in the folder, creating one if there is none.

    Raises UsageError for a token that is too short.
    """
    file = folder / TOKENS
    try:
        if not file.exists():
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as made:  # noqa: PTH123 - a descriptor
                made.write(secrets.token_urlsafe(32) + "\n")
        found = frozenset(filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())))
    except OSError as error:
        raise EnvironmentFault(f"{file} cannot be used: {error.strerror}") from error
    if not found or min(map(len, found)) < SHORTEST_TOKEN:
        raise UsageError(f"{file}: a token has at least {SHORTEST_TOKEN} characters; delete it for a new one")
    return found
