"""The servers of this process: the imports of judges and candidates are paid once, not for each candidate."""

import atexit
import contextlib
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Literal

from agent import config
from agent.errors import EnvironmentFault
from agent.executors.select import choose
from agent.harness.backends import gpu_health, launch_suppression
from agent.harness.task import servers
from agent.sandbox import Child, ChildFault, ProcessServer

Executor = Literal["cuda", "emulator"]
_STARTING = threading.Lock()


class Warm:
    """A server of our own processes and one or two of the candidates', which end with this process.

    A GPU's candidates have one of their own, and are looked at on the emulator as well.
    """

    def __init__(self, executor: Executor, suppressor: Path | None) -> None:
        """`suppressor`: is loaded first in a GPU's candidates."""
        environment = config.child_environment()
        ours = environment | servers.COMPILING | {"PYTHONPATH": config.with_package(environment)}
        on_gpu = (*servers.COMPILER, servers.MACHINE) if executor == "cuda" else ()
        theirs = config.candidate_environment()
        self.unfit: dict[str, str] = {}
        """Servers that can hand out no process here, each with why; what they are for is started afresh."""
        self._servers = {
            "emulator": ProcessServer.started(servers.CANDIDATES, theirs, isolated=True),
            "trusted": ProcessServer.started((*servers.TRUSTED, *on_gpu), ours, isolated=False),
        }
        if executor == "cuda":
            theirs = theirs | launch_suppression.preloaded(suppressor)
            self._servers["cuda"] = ProcessServer.started(servers.CANDIDATES, theirs, isolated=True)

    @property
    def trusted(self) -> ProcessServer | None:
        return self._servers.get("trusted")

    def prepared(self) -> "Warm":
        """Itself once all that can hand out processes are ready to."""
        on_gpu = ("trusted", "cuda") if "cuda" in self._servers else ()
        for name, server in list(self._servers.items()):
            try:
                server.wait()
                if name in on_gpu:
                    _require_gpu(server)
            except EnvironmentFault as fault:
                self.unfit[name] = f"{fault} {fault.details}".strip()
                self._servers.pop(name).end()
        return self

    def end(self) -> None:
        for server in self._servers.values():
            # Ctrl-C while one is waited for: its link is closed, so that it ends by itself.
            with contextlib.suppress(KeyboardInterrupt):
                server.end()

    def passed(self, stack: contextlib.ExitStack) -> servers.Servers:
        """New sockets to all, for one judge; they are open until the stack is unwound."""
        links = {name: stack.enter_context(server.client()) for name, server in self._servers.items()}
        return servers.Servers(**{name: link.fileno() for name, link in links.items()})


def _require_gpu(server: ProcessServer) -> None:
    """Raises EnvironmentFault where a process of the server's cannot compute on the GPU.

    An import that has asked the driver leaves that to no process that is forked afterwards.
    """
    with Child(
        [sys.executable, "-c", gpu_health.SUM], env=config.child_environment(), server=server
    ) as child:
        try:
            child.ask({}, gpu_health.LIMIT_S)
        except ChildFault as fault:
            raise EnvironmentFault(f"a forked process {fault} where it uses the GPU", child.log) from None


def begin(executor: Executor, cache_dir: Path) -> None:
    """Begins to start the servers, which takes seconds; `found` waits for them."""
    with _STARTING:
        _begun(executor, _suppressor(executor, cache_dir))


def begin_for(wanted: Literal["auto", "cuda", "emulator"], cache_dir: Path) -> None:
    """Begins for the executor that `wanted` comes to, so that other preparations run beside."""
    with contextlib.suppress(EnvironmentFault):
        begin(choose(wanted), cache_dir)


def found(executor: Executor, cache_dir: Path) -> Warm:
    """The servers, without those that can hand out nothing here."""
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
def _prepared(executor: Executor, suppressor: Path | None) -> Warm:
    return _begun(executor, suppressor).prepared()
