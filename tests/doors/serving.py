"""A server of ours for the SDK's own client, over each transport, and a problem that is judged in seconds."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from e2e.commands import COMMAND, environment
from interrupting import interruptible
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from agent import prompts

REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(37, 129)]


def get_init_inputs():
    return []
"""
RIGHT = prompts.skeleton()
WRONG = RIGHT.replace("extension.scale_cuda(x, 2.0)", "extension.scale_cuda(x, 3.0)")
UNDECLARED = RIGHT.replace('"torch::Tensor scale_cuda(torch::Tensor x, double factor);"', '""')
Transport = Literal["stdio", "http"]


def furnished(folder: Path) -> tuple[str, ...]:
    """Puts a reference and a candidate there; the options of a server that may read them."""
    for name, files in (("references", {"twice.py": REFERENCE}), ("candidates", {"wrong.py": WRONG})):
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text)
    return ("--references", "references", "--candidates", "candidates", "--executor", "emulator")


@asynccontextmanager
async def connected(transport: Transport, folder: Path, *options: str) -> AsyncIterator[Client]:
    """A client of `agent mcp`, started in the folder."""
    if transport == "stdio":
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], "mcp", *options], cwd=folder, env=environment()
        )
        async with Client(server) as client:
            yield client
        return
    with subprocess.Popen(
        [*COMMAND, "mcp", "--http", *options], cwd=folder, env=environment(), text=True,
        stdout=subprocess.PIPE, preexec_fn=interruptible,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            async with Client(process.stdout.readline().strip()) as client:
                yield client
        finally:
            process.terminate()


async def asked(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """What a tool answers; a refusal fails the test."""
    answer = await client.call_tool(tool, dict(arguments))
    assert not answer.is_error, answer.content
    assert isinstance(answer.structured_content, dict)
    return answer.structured_content


async def refused(client: Client, tool: str, **arguments: object) -> str:
    """What a tool says that it refuses."""
    answer = await client.call_tool(tool, dict(arguments))
    assert answer.is_error, answer.content
    (said,) = answer.content
    return str(getattr(said, "text", ""))
