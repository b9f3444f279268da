"""`agent serve`: serve the judge over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from agent import config
from agent.cli import console, judging, serving

Folder = Annotated[
    Path,
    typer.Option("--folder", metavar="DIR", help="Folder for the queue and the tokens.", file_okay=False),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all interfaces.")]
Port = Annotated[int, typer.Option("--port", help="TCP port; 0 picks a free one.", min=0, max=65535)]
Jobs = Annotated[int, typer.Option("--jobs", help="Maximum candidates judged at once.", min=1, max=256)]
Queue = Annotated[int, typer.Option("--queue", help="Maximum number of waiting jobs.", min=1)]
Rate = Annotated[
    int, typer.Option("--rate", help="Maximum new jobs and prompts per minute and token.", min=1)
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust-references", help="Accept references from clients; they run as trusted code of this user."
    ),
]


def serve(
    folder: Folder = Path("service"),
    host: Host = "127.0.0.1",
    port: Port = 8780,
    jobs: Jobs = 1,
    queue: Queue = 10_000,
    rate: Rate = 600,
    trust_references: Trust = False,
    cluster: judging.Cluster = None,
    executor: judging.Executor = None,
    candidate_timeout: judging.Timeout = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Serve the judge over HTTP, with a queue that survives restarts. Ctrl-C stops the service.

    Clients need a token from DIR/tokens. The service refuses to start if candidates cannot be isolated.
    """
    flags = {"executor": executor, "candidate_timeout": candidate_timeout}
    settings = config.load(flags, offline=True).settings
    with serving.needs_extra("agent serve", "ray" if cluster else "serve"):
        from agent.doors.service.running import Plan
        from agent.doors.service.running import serve as run

    def ready(address: str) -> None:
        stop = f"clients need a token of {folder / 'tokens'}; press Ctrl-C to stop the service"
        serving.announce(address, json, stop)

    run(
        settings,
        Plan(
            folder=folder, host=host, port=port, jobs=jobs, most_queued=queue, a_minute=rate,
            trusts_references=trust_references, cluster=cluster or "",
        ),
        ready,
        serving.Told(),
    )  # fmt: skip
