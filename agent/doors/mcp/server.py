"""The MCP server with its tools, resources and prompts."""

import json
from collections.abc import Callable
from typing import TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError

from agent import __version__, problems, resources, store
from agent.api import render_prompt, submitting
from agent.api.judge import load_problem
from agent.config import Settings
from agent.doors.mcp import answers
from agent.doors.mcp.access import Access
from agent.doors.mcp.tools import Tools
from agent.errors import AgentError
from agent.problems import gpu_cards
from agent.records import Prompt
from agent.store.export import document

INSTRUCTIONS = """\
Judges hand-written CUDA kernels (a Python file with ModelNew) against PyTorch references. Describe the
problem, judge a candidate, read the findings, mend what they name, judge again; submit what is verified to
a run. A verdict says what it covers in its scope. A candidate is judged out of its own reach: what only
looks right is refused.\
"""
PAGES = {
    "findings": "reference/findings.md",
    "verdicts": "verdicts.md",
    "limits": "limits.md",
    "coding-agents": "guides/coding-agents.md",
}
"""Documentation files by PAGE of kernelwright://docs/PAGE."""
ROUND_CHARACTERS = 2**18
Made = TypeVar("Made")


def build(settings: Settings, access: Access, at_a_time: int) -> MCPServer:
    """Build the server without a transport. At most `at_a_time` calls judge at the same time."""
    server: MCPServer = MCPServer(
        "kernelwright", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(settings, access, at_a_time)
    for tool in (tools.describe, tools.judge, tools.mend, tools.profile, tools.compare, tools.submit,
                 tools.list_runs, tools.read_run):  # fmt: skip
        server.add_tool(tool)
    _add_resources(server, access)
    _add_prompts(server, settings, access)
    return server


def _add_resources(server: MCPServer, access: Access) -> None:
    @server.resource("kernelwright://runs/{+run}", mime_type="application/json")
    def run(run: str) -> str:
        """Return the state of a run, without its prompts, answers and sources."""
        return _told(lambda: answers.run_state(access.run(run)).model_dump_json(indent=1))

    @server.resource("kernelwright://rounds/{number}/{+run}", mime_type="application/json")
    def transcript(number: int, run: str) -> str:
        """Return one round of a run: prompt, answer and verdicts."""

        def made() -> str:
            found = access.run(run)
            log = found.log
            rounds = document(found.folder, log, store.history.build_history(log)).rounds
            wanted = [one for one in rounds if one.round == number]
            if not wanted:
                raise ResourceError(f"run {run} has {len(rounds)} rounds and no round {number}")
            return answers.cut(wanted[0].model_dump_json(indent=1), ROUND_CHARACTERS)

        return _told(made)

    @server.resource("kernelwright://cards/{gpu}", mime_type="application/json")
    def card(gpu: str) -> str:
        """Return the card of a GPU: its units, memories and limits."""
        found = gpu_cards.card(gpu)
        if found is None:
            raise ResourceError(f"there is no card of {gpu[:80]!r}; there are: {', '.join(problems.GPUS)}")
        return found.model_dump_json(indent=1)

    @server.resource("kernelwright://docs/{page}", mime_type="text/markdown")
    def docs(page: str) -> str:
        """Return a page of the documentation: findings, verdicts, limits or coding-agents."""
        if page not in PAGES:
            raise ResourceError(f"there is no page {page[:80]!r}; there are: {', '.join(PAGES)}")
        return (resources.folder("docs") / PAGES[page]).read_text(encoding="utf-8")

    @server.resource("kernelwright://problems", mime_type="application/json")
    def references() -> str:
        """Return the names of the shipped references."""
        return json.dumps(problems.names())


def _add_prompts(server: MCPServer, settings: Settings, access: Access) -> None:
    @server.prompt()
    def task(problem: str) -> str:
        """Return the prompt that asks a model to write a kernel for a problem."""

        def made() -> str:
            address = access.reference(problem)
            traced = load_problem(address, kernelbench_root=settings.kernelbench_root)
            return _text(render_prompt(traced, settings=settings))

        return _told(made)

    @server.prompt()
    def next_answer(run: str) -> str:
        """Return the open prompt of a run: the verdict on the last answer, and the next task."""

        def made() -> str:
            asked = submitting.question(access.run(run))
            return _text(asked) if asked else f"Run {run} has ended and asks nothing."

        return _told(made)


def _text(prompt: Prompt) -> str:
    return "\n\n".join(message.content for message in prompt.messages)


def _told(make: Callable[[], Made]) -> Made:
    """Return the result of `make`, with an AgentError turned into one line for the client."""
    try:
        return make()
    except AgentError as error:
        raise ResourceError(str(error)) from error
