"""A call of a tool: what it is doing is told, and cancelling it ends what it has begun."""

from threading import Event
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver.exceptions import ToolError

from agent.doors.mcp.calls import Call, carried
from agent.errors import EnvironmentFault, Interrupted, UsageError


class Heard:
    """A context that keeps what was reported."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []
        self.first = anyio.Event()

    async def report_progress(self, done: float, total: float | None, text: str | None) -> None:
        self.texts.append(text)
        self.first.set()


def call(work: Any) -> Any:
    async def main() -> Any:
        context: Any = Heard()
        return await carried(context, anyio.CapacityLimiter(1), work)

    return anyio.run(main)


def test_a_cancelled_call_ends_its_work_and_leaves_room_for_the_next() -> None:
    ended = Event()

    def works_on(call: Call) -> None:
        try:
            while True:
                call.update("building")
        except Interrupted:
            ended.set()

    async def main() -> str:
        limiter, heard = anyio.CapacityLimiter(1), Heard()
        context: Any = heard
        async with anyio.create_task_group() as group:
            group.start_soon(carried, context, limiter, works_on)
            await heard.first.wait()
            group.cancel_scope.cancel()
        return await carried(context, limiter, lambda call: "the next")

    assert anyio.run(main) == "the next"
    assert ended.is_set()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UsageError("no such file"), "no such file"),
        (EnvironmentFault("no nvcc"), "no fault of the candidate"),
    ],
)
def test_an_error_of_ours_is_one_line_for_the_client(error: Exception, said: str) -> None:
    def fails(call: Call) -> None:
        raise error

    with pytest.raises(ToolError, match=said):
        call(fails)


def test_a_defect_of_the_tool_is_not_told() -> None:
    def breaks(call: Call) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(breaks)
