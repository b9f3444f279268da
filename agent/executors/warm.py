"""The servers of this process: the imports of judges and candidates are paid once, not for each candidate."""

import atexit
import contextlib
import threading
from functools import cache
from typing import Literal

from agent import config
from agent.errors import EnvironmentFault
from agent.executors.select import choose
from agent.harness.task import servers
from agent.sandbox import ProcessServer

_STARTING = threading.Lock()


class Warm:
    """Two servers, which end with this process: one of our own processes, one of the candidates'."""

    def __init__(self) -> None:
        environment = config.child_environment()
        ours = environment | {"PYTHONPATH": config.with_package(environment)}
        self.candidates = ProcessServer.started(
            servers.CANDIDATES, config.candidate_environment(), isolated=True
        )
        self.trusted = ProcessServer.started(servers.TRUSTED, ours, isolated=False)

    def end(self) -> None:
        for server in (self.candidates, self.trusted):
            server.end()

    def prepared(self) -> "Warm":
        """Itself once both can hand out processes. Raises EnvironmentFault where one cannot."""
        for server in (self.candidates, self.trusted):
            server.wait()
        return self


def begin() -> None:
    """Begins to start the servers, which takes seconds; `found` waits for them."""
    with _STARTING:
        _begun()


def begin_for(wanted: Literal["auto", "cuda", "emulator"]) -> None:
    """Begins where the executor that `wanted` comes to uses them, so that other preparations run beside."""
    with contextlib.suppress(EnvironmentFault):
        if choose(wanted) == "emulator":
            begin()


def found() -> Warm | None:
    """The servers; None where processes cannot be handed out here, and each has to be started afresh."""
    with _STARTING:
        return _prepared()


@cache
def _begun() -> Warm:
    made = Warm()
    atexit.register(made.end)
    return made


@cache
def _prepared() -> Warm | None:
    try:
        return _begun().prepared()
    except EnvironmentFault:
        return None
