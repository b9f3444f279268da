"""Fork servers of this process, which import the modules of judges and candidates once for all of them."""

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
    """Fork servers for trusted processes and for candidates, which end with this process.

    On a GPU there are two servers for candidates, since the second look also uses the emulator.
    """

    def __init__(self, executor: Executor, suppressor: Path | None) -> None:
        """Start the servers. `suppressor` is a library that is preloaded into a GPU's candidates."""
        environment = config.child_environment()
        ours = environment | servers.COMPILING | {"PYTHONPATH": config.with_package(environment)}
        on_gpu = (*servers.COMPILER, servers.MACHINE) if executor == "cuda" else ()
        theirs = config.candidate_environment()
        self.unfit: dict[str, str] = {}
        """Reason why a server cannot fork processes here, by its name; such processes start afresh."""
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
        """Wait until the servers are ready to fork, drop those that cannot fork, and return self."""
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
            # After Ctrl-C during a wait, the server's socket is closed, so the server ends by itself.
            with contextlib.suppress(KeyboardInterrupt):
                server.end()

    def passed(self, stack: contextlib.ExitStack) -> servers.Servers:
        """Return new sockets to all servers for one judge; they stay open until the stack is unwound."""
        links = {name: stack.enter_context(server.client()) for name, server in self._servers.items()}
        return servers.Servers(**{name: link.fileno() for name, link in links.items()})


def _require_gpu(server: ProcessServer) -> None:
    """Raise EnvironmentFault if a process forked by this server cannot compute on the GPU.

    An import that initialises the driver makes the GPU unusable in every process forked later.
    """
    with Child(
        [sys.executable, "-c", gpu_health.SUM], env=config.child_environment(), server=server
    ) as child:
        try:
            child.ask({}, gpu_health.LIMIT_S)
        except ChildFault as fault:
            raise EnvironmentFault(f"a forked process {fault} where it uses the GPU", child.log) from None


def begin(executor: Executor, cache_dir: Path) -> None:
    """Begin to start the fork servers, which takes seconds; `found` waits for them."""
    with _STARTING:
        _begun(executor, _suppressor(executor, cache_dir))


def begin_for(wanted: Literal["auto", "cuda", "emulator"], cache_dir: Path) -> None:
    """Begin to start the servers of the executor that `wanted` selects, without waiting for them."""
    with contextlib.suppress(EnvironmentFault):
        begin(choose(wanted), cache_dir)


def found(executor: Executor, cache_dir: Path) -> Warm:
    """Return the fork servers once they are ready, without those that cannot fork on this machine."""
    with _STARTING:
        return _prepared(executor, _suppressor(executor, cache_dir))


def _suppressor(executor: Executor, cache_dir: Path) -> Path | None:
    """Return the launch suppressor for candidates on a GPU, or None for the emulator."""
    return launch_suppression.library(cache_dir) if executor == "cuda" else None


@cache
def _begun(executor: Executor, suppressor: Path | None) -> Warm:
    made = Warm(executor, suppressor)
    atexit.register(made.end)
    return made


@cache
def _prepared(executor: Executor, suppressor: Path | None) -> Warm:
    return _begun(executor, suppressor).prepared()
