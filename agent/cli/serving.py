"""Helpers of the commands that start a server: optional packages, progress and the address."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.api.listening import Listener
from agent.cli import console
from agent.errors import EnvironmentFault
from agent.records import SCHEMA_VERSION


@contextmanager
def needs_extra(command: str, extra: str) -> Iterator[None]:
    """Wrap imports of optional packages. Raises EnvironmentFault if the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "agent":
            raise
        raise EnvironmentFault(
            f"{command} needs packages that are not installed: pip install 'kernelwright[{extra}]'"
        ) from error


class Told(Listener):
    """Listener that prints results and warnings as lines and drops progress steps."""

    def say(self, text: str) -> None:
        console.say(text)

    def warn(self, text: str) -> None:
        console.warn(text)


def announce(address: str, json: bool, stop: str) -> None:
    """Print the server's address, then the note `stop` on how to stop it."""
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "url": address})
    else:
        console.show(address)
    console.say(stop)
