"""Processes that prepare rows in parallel, and time them one at a time on request.

A compiled function cannot leave the process that compiled it, so each process times its own rows.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal, NamedTuple

from agent.kernels.benching import Machine, disable_tf32
from agent.kernels.sweep import grid
from agent.kernels.sweep.measuring import Means, Ready, made_ready, timed
from agent.kernels.sweep.rows import Row

MOST_COMPILED = 64
"""Number of shapes for which torch.compile compiles one function before it gives up."""


class Order(NamedTuple):
    """Command to a process: prepare rows, or time one of them, or end."""

    what: Literal["ready", "time", "end"]
    names: Sequence[str] = ()
    mode: str | None = None


class Answer(NamedTuple):
    """Result for one row: only its name once it is prepared, the measured row once timed, or the fault."""

    name: str
    row: Row | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Worker:
    """Worker process, as the process that started it uses it."""

    connection: Any
    end: Callable[[], None]


def started(here: Machine) -> Worker:
    """Start a process on the present GPU."""
    context = multiprocessing.get_context("spawn")
    # Each process compiles without helper processes, as there is one per processor. Inductor reads this when
    # imported.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_gpu, args=(theirs, here), daemon=True)
    process.start()
    theirs.close()
    return Worker(ours, lambda: _ended(process))


def serve(connection: Connection, means: Means, here: Machine) -> None:
    """Follow orders until an order to end, or until the connection closes."""
    ready: dict[str, Ready] = {}
    while True:
        try:
            order: Order = connection.recv()
        except EOFError:
            return
        if order.what == "end":
            return
        if order.what == "ready":
            ready.clear()
            means.release()
        for name in order.names:
            try:
                if order.what == "ready":
                    ready[name] = made_ready(_entries(name.split()[0])[name], means, order.mode)
                    answer = Answer(name)
                else:
                    answer = Answer(name, timed(ready.pop(name), means, here))
            except Exception as error:  # noqa: BLE001  # only this row fails, and its fault is reported
                answer = Answer(name, fault=f"{type(error).__name__}: {error}"[:300])
                traceback.print_exc()
                means.release()
            connection.send(answer)


@cache
def _entries(kernel: str) -> dict[str, grid.Entry]:
    return {entry.name: entry for entry in grid.list_rows(kernel)}


def _ended(process: BaseProcess) -> None:
    process.terminate()
    process.join(5)
    if process.is_alive():
        process.kill()


def _serve_gpu(connection: Connection, here: Machine) -> None:
    import torch

    torch.set_num_threads(1)
    disable_tf32()
    serve(connection, _on_gpu(), here)


def _on_gpu() -> Means:
    import torch

    from agent.kernels.benching import Clock

    torch._dynamo.config.recompile_limit = MOST_COMPILED

    def compiled(function: Any, mode: str | None) -> Any:
        return torch.compile(function, mode=mode, dynamic=False)

    def release() -> None:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    return Means("cuda", compiled, Clock(), release)
