"""Server for the site on this machine's loopback address; runs until Ctrl-C."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from agent import store
from agent.bench import Bench
from agent.errors import UsageError
from agent.viewer import pages
from agent.viewer.app import Site, build
from agent.viewer.bench_view import OF_A_BENCH
from agent.viewer.runs_list import href

ADDRESS = "127.0.0.1"
GRACE_S = 2
"""Seconds that open pages may still receive data once the server ends."""


Shown = store.Run | Bench | None
"""Subject of the first page; None shows the list of runs."""


def serve(runs_dir: Path, shown: Shown, port: int, ready: Callable[[str], None]) -> None:
    """Call `ready` with the page's address once it can be opened; return when interrupted.

    `port` 0 picks a free one. Raises UsageError when the given port is taken.
    """
    with listening(port) as listener:
        server = server_for(runs_dir, shown, listener)
        # uvicorn ends its streams, then raises the signal again.
        with suppress(KeyboardInterrupt):
            ready(address_of(listener, shown))
            # Templates are compiled while the user opens the browser; requests that arrive meanwhile wait in
            # the socket.
            pages.prepare()
            server.run(sockets=[listener])


def listening(port: int) -> socket.socket:
    """Return a listening socket, so that the address is known and answers before the server has started."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(
            f"port {port} cannot be opened ({error.strerror}); leave out --port to use a free one"
        ) from error
    return listener


def server_for(runs_dir: Path, shown: Shown, listener: socket.socket) -> uvicorn.Server:
    port = listener.getsockname()[1]
    hosts = frozenset(f"{name}:{port}" for name in (ADDRESS, "localhost"))
    site = Site(runs_dir, shown, lambda: server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(
            build(site, hosts),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
    return server


def address_of(listener: socket.socket, shown: Shown) -> str:
    base = f"http://{ADDRESS}:{listener.getsockname()[1]}"
    if isinstance(shown, Bench):
        return base + OF_A_BENCH
    return base + (href(shown.id) if shown else "/")
