"""Writes runs/recorded/group_norm_by_agent: a coding agent's loop by the tools of `agent mcp`.

Run `python -m tests.recorded.agent_loop` after a change of the tools or of the judge. What the agent does is
written here: it describes the problem, judges, reads the finding, judges again and submits. The calls with
their answers are in `session.jsonl` beside the transcript of the run.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from agent import parse, resources
from agent.records import Completion

PROBLEM = "level1/group_norm"
NAME = "group_norm_by_agent"
SESSION = "session.jsonl"
ANSWERS = Path(__file__).parent / "group_norm"
CUT = 2_000
"""Characters of a text that the session keeps."""


def source(number: int) -> str:
    """The candidate in one of the recorded answers."""
    text = (ANSWERS / f"{number}.md").read_text(encoding="utf-8")
    return parse.candidate(PROBLEM, Completion(provider="test", model=None, text=text), None).source


async def loop(folder: Path, session: list[dict[str, Any]]) -> str:
    """The calls, one after the other; the id of the run."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "agent.cli", "mcp", "--executor", "emulator"], cwd=folder
    )
    async with Client(server) as client:

        async def call(tool: str, **arguments: object) -> dict[str, Any]:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer.content
            found: dict[str, Any] = answer.structured_content or {}
            session.append({"tool": tool, "arguments": cut(arguments), "answer": cut(found)})
            return found

        await call("describe", problem=PROBLEM)
        first = await call("judge", problem=PROBLEM, candidate=source(3), quick=True)
        assert first["findings"][0]["kind"] == "affine-ignored", first
        second = await call("judge", problem=PROBLEM, candidate=source(4), quick=True)
        assert second["accepted"], second
        begun = await call("submit", problem=PROBLEM, rounds=3)
        wrong = await call("submit", run=begun["run"], candidate=source(3))
        assert not wrong["new"][0]["accepted"]
        done = await call("submit", run=begun["run"], candidate=source(4))
        assert done["outcome"] == "verified", done
        await call("compare", run=begun["run"])
    return str(begun["run"])


def cut(value: Any) -> Any:
    """The same with its texts cut, which the transcript holds whole."""
    if isinstance(value, dict):
        return {name: cut(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [cut(one) for one in value]
    if isinstance(value, str) and len(value) > CUT:
        return f"{value[:CUT]}\n[{len(value) - CUT} more characters]"
    return value


def record(into: Path) -> Path:
    """Has the loop done in a folder of its own, and puts its run at `into`."""
    session: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        run = anyio.run(loop, Path(made), session)
        lines = "".join(json.dumps(line) + "\n" for line in session)
        (Path(made) / "runs" / run / SESSION).write_text(lines, encoding="utf-8")
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(Path(made) / "runs" / run, into)
    return into


if __name__ == "__main__":
    sys.stdout.write(f"{record(resources.folder('recorded') / NAME)}\n")
