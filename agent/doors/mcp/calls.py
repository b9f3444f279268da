"""A tool's call: done in a thread, its steps told as progress, given up when the client cancels it."""

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
"""How often a client is told what is being done, where that has changed."""
Told = TypeVar("Told")


class Call(Listener):
    """What the API tells of one call; the latest step is kept and no other."""

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
    """What `work` gives. An error of ours becomes one line for the client, and so does that of a candidate's
    address; a cancelled call ends what it has begun, and keeps its place in `limiter` until that has ended.
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
    """Outside the task group, which would wrap an exception in a group of them."""
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
    finally:  # the work's thread cannot be cancelled: it learns here that it should end
        call.cancel()
