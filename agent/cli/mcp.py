"""`agent mcp`: serve the judge as tools for coding agents."""

from pathlib import Path
from typing import Annotated

import typer

from agent import config
from agent.cli import console, judging, serving

Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--candidates", metavar="DIR", help="Folder from which clients may have candidates read. Repeatable.",
        file_okay=False, exists=True,
    ),
]  # fmt: skip
References = Annotated[
    list[Path] | None,
    typer.Option(
        "--references", metavar="DIR",
        help="Folder from which clients may use references, which run as trusted code. Repeatable.",
        file_okay=False, exists=True,
    ),
]  # fmt: skip


Http = Annotated[bool, typer.Option("--http", help="Serve streamable HTTP on 127.0.0.1 instead of stdio.")]
Port = Annotated[
    int, typer.Option("--port", help="TCP port for --http.", min=0, max=65535, show_default="a free one")
]
Jobs = Annotated[
    int, typer.Option("--jobs", help="Maximum calls that judge at the same time.", min=1, max=64)
]


def mcp(
    http: Http = False,
    port: Port = 0,
    candidates: Folders = None,
    references: References = None,
    jobs: Jobs = 1,
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    candidate_timeout: judging.Timeout = None,
    library_ops: judging.LibraryOps = None,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Serve the judge to coding agents over the Model Context Protocol (MCP).

    Clients can read shipped references, runs, and files in the folders given here.
    """
    flags = {
        "executor": executor, "sandbox": isolation, "candidate_timeout": candidate_timeout,
        "library_ops": library_ops, "runs_dir": runs_dir,
    }  # fmt: skip
    settings = config.load(flags, offline=True).settings
    with serving.needs_extra("agent mcp", "mcp"):
        from agent.doors.mcp import transports
        from agent.doors.mcp.access import Access
        from agent.doors.mcp.server import build

    access = Access(
        runs_dir=settings.runs_dir, references=_absolute(references), candidates=_absolute(candidates),
        kernelbench_root=settings.kernelbench_root,
    )  # fmt: skip
    server = build(settings, access, jobs)
    if not http:
        transports.serve_stdio(server)
        return

    def ready(address: str) -> None:
        serving.announce(address, json, "press Ctrl-C to stop the server")

    transports.serve_http(server, port, ready)


def _absolute(folders: list[Path] | None) -> tuple[Path, ...]:
    return tuple(folder.absolute() for folder in folders or ())
