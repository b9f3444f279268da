"""Sockets that the doors listen on."""

import socket

from agent.errors import UsageError

LOOPBACK = "127.0.0.1"


def listening(host: str, port: int) -> socket.socket:
    """Open a listening socket, so that the address is known before a server starts; port 0 picks a free one.

    Raises UsageError if the address is taken or does not belong to this machine.
    """
    try:
        return socket.create_server((host, port), backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host}:{port} cannot be opened ({reason}); choose another --port") from error
