"""A tool's call: it runs in a thread, reports progress, and stops when the client cancels it."""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint_if_cancelled
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from agent.api import Listener
from agent.errors import AgentError, EnvironmentFault, Interrupted

TELL_S = 0.25
"""Seconds between two progress reports to a client, if the step has changed."""
Told = TypeVar("Told")


class Call(Listener):
    """Listener of one call, which keeps only the latest step."""

    def __init__(self) -> None:
        self._cancelled = Event()
        self.step = 0
        self.text = ""
        self.warnings: list[str] = []

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if self._cancelled.is_set():
            raise Interrupted("cancelled by the client")
        if text != self.text:
            self.step, self.text = self.step + 1, text[:500]

    def say(self, text: str) -> None:
        self.update(text)

    def warn(self, text: str) -> None:
        self.warnings = [*self.warnings[-9:], text[:500]]

    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()


async def carried(context: Context[Any, Any], limiter: CapacityLimiter, work: Callable[[Call], Told]) -> Told:
    """Run `work` in a thread and return its result; an error of ours becomes one line for the client.

    A cancelled call ends the work that it has begun, and keeps its place in `limiter` until that work has
    ended.
    """
    call = Call()
    async with anyio.create_task_group() as group:
        group.start_soon(_tell, context, call)
        outcome = await to_thread.run_sync(partial(_caught, work, call), limiter=limiter)
        group.cancel_scope.cancel()
    await checkpoint_if_cancelled()
    match outcome:
        case EnvironmentFault() as fault:
            raise ToolError(f"not judged, which is no fault of the candidate: {fault}") from fault
        case AgentError() as error:
            raise ToolError(str(error)) from error
        case BaseException() as defect:
            raise defect
        case found:
            return found


def _caught(work: Callable[[Call], Told], call: Call) -> Told | BaseException:
    """Return an exception as a value, because the task group would wrap it in an exception group."""
    try:
        return work(call)
    except Exception as error:  # noqa: BLE001 - raised by `carried`
        return error


async def _tell(context: Context[Any, Any], call: Call) -> None:
    told = 0
    try:
        while True:
            await anyio.sleep(TELL_S)
            if call.step != told:
                told = call.step
                await context.report_progress(told, None, call.text)
    finally:  # the worker thread cannot be cancelled, so it is told here to end
        call.cancel()
