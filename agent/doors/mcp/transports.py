"""Transports for clients: the pipes of a process that they start, or HTTP from this machine."""

from collections.abc import Callable
from contextlib import suppress

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from agent.doors.listening import LOOPBACK, listening

PATH = "/mcp"
LARGEST_REQUEST_BYTES = 4 * 2**20
SESSIONS = 64


def serve_stdio(server: MCPServer) -> None:
    """Serve over stdio; returns when the client closes the pipe."""
    with suppress(KeyboardInterrupt):
        server.run("stdio")


def serve_http(server: MCPServer, port: int, ready: Callable[[str], None]) -> None:
    """Serve over HTTP and call `ready` with the address once it can be reached; returns when interrupted.

    The server listens on the loopback only and accepts only its own host name. A web page whose name resolves
    to this machine therefore gets nothing. Raises UsageError for a port that is taken.
    """
    with listening(LOOPBACK, port) as listener:
        port = listener.getsockname()[1]
        names = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
        app = server.streamable_http_app(
            streamable_http_path=PATH, max_request_body_size=LARGEST_REQUEST_BYTES, max_sessions=SESSIONS,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True, allowed_hosts=names,
                allowed_origins=[f"http://{name}" for name in names],
            ),
        )  # fmt: skip
        served = uvicorn.Server(
            uvicorn.Config(
                app, log_level="warning", access_log=False, ws="none", server_header=False,
                timeout_graceful_shutdown=2,
            )
        )  # fmt: skip
        with suppress(KeyboardInterrupt):
            ready(f"http://{LOOPBACK}:{port}{PATH}")
            served.run(sockets=[listener])
