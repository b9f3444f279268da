"""Sockets that the doors listen on."""

import socket

from agent.errors import UsageError

LOOPBACK = "127.0.0.1"


def listening(host: str, port: int) -> socket.socket:
    """A listening socket, so that the address is known before a server has started; port 0 is a free one.

    Raises UsageError for an address that is taken or is none of this machine.
    """
    try:
        return socket.create_server((host, port), backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host}:{port} cannot be opened ({reason}); choose another --port") from error
