"""The servers of this process: the imports of judges and candidates are paid once, not for each candidate."""

import atexit
import contextlib
import threading
from functools import cache
from pathlib import Path
from typing import Literal

from agent import config
from agent.errors import EnvironmentFault
from agent.executors.select import choose
from agent.harness.backends import launch_suppression
from agent.harness.task import servers
from agent.sandbox import ProcessServer

Executor = Literal["cuda", "emulator"]
_STARTING = threading.Lock()


class Warm:
    """A server of our own processes and one or two of the candidates', which end with this process.

    A GPU's candidates have one of their own, and are looked at on the emulator as well.
    """

    def __init__(self, executor: Executor, suppressor: Path | None) -> None:
        """`suppressor`: is loaded first in a GPU's candidates."""
        environment = config.child_environment()
        ours = environment | {"PYTHONPATH": config.with_package(environment)}
        theirs = config.candidate_environment()
        self.emulator = ProcessServer.started(servers.CANDIDATES, theirs, isolated=True)
        self.trusted = ProcessServer.started(servers.TRUSTED, ours, isolated=False)
        self.cuda: ProcessServer | None = None
        if executor == "cuda":
            theirs = theirs | launch_suppression.preloaded(suppressor)
            self.cuda = ProcessServer.started(servers.CANDIDATES, theirs, isolated=True)

    def prepared(self) -> "Warm":
        """Itself once all can hand out processes. Raises EnvironmentFault where one cannot."""
        for server in self._servers():
            server.wait()
        return self

    def end(self) -> None:
        for server in self._servers():
            server.end()

    def passed(self, stack: contextlib.ExitStack) -> servers.Servers:
        """New sockets to all, for one judge; they are open until the stack is unwound."""

        def link(server: ProcessServer) -> int:
            return stack.enter_context(server.client()).fileno()

        return servers.Servers(
            trusted=link(self.trusted),
            emulator=link(self.emulator),
            cuda=link(self.cuda) if self.cuda else None,
        )

    def _servers(self) -> list[ProcessServer]:
        return [server for server in (self.emulator, self.trusted, self.cuda) if server]


def begin(executor: Executor, cache_dir: Path) -> None:
    """Begins to start the servers, which takes seconds; `found` waits for them."""
    with _STARTING:
        _begun(executor, _suppressor(executor, cache_dir))


def begin_for(wanted: Literal["auto", "cuda", "emulator"], cache_dir: Path) -> None:
    """Begins for the executor that `wanted` comes to, so that other preparations run beside."""
    with contextlib.suppress(EnvironmentFault):
        begin(choose(wanted), cache_dir)


def found(executor: Executor, cache_dir: Path) -> Warm | None:
    """The servers; None where processes cannot be handed out here, and each has to be started afresh."""
    with _STARTING:
        return _prepared(executor, _suppressor(executor, cache_dir))


def _suppressor(executor: Executor, cache_dir: Path) -> Path | None:
    """All that servers owe to a cache: with another one they would be the same otherwise."""
    return launch_suppression.library(cache_dir) if executor == "cuda" else None


@cache
def _begun(executor: Executor, suppressor: Path | None) -> Warm:
    made = Warm(executor, suppressor)
    atexit.register(made.end)
    return made


@cache
def _prepared(executor: Executor, suppressor: Path | None) -> Warm | None:
    try:
        return _begun(executor, suppressor).prepared()
    except EnvironmentFault:
        return None
