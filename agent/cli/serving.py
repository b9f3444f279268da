"""What the commands that serve have in common: packages that may be missing, and the address."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent.api.listening import Listener
from agent.cli import console
from agent.errors import EnvironmentFault
from agent.records import SCHEMA_VERSION


@contextmanager
def needs_extra(command: str, extra: str) -> Iterator[None]:
    """For the imports of what serves. Raises EnvironmentFault where the extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "agent":
            raise
        raise EnvironmentFault(
            f"{command} needs packages that are not installed: pip install 'kernelwright[{extra}]'"
        ) from error


class Told(Listener):
    """Results and warnings as lines; steps are for those who ask."""

    def say(self, text: str) -> None:
        console.say(text)

    def warn(self, text: str) -> None:
        console.warn(text)


def announce(address: str, json: bool, stop: str) -> None:
    """Where it answers, and how it is stopped."""
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "url": address})
    else:
        console.show(address)
    console.say(stop)
