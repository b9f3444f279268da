"""`agent skill install`: install the skill that explains the judge to coding agents."""

from pathlib import Path
from typing import Annotated

import typer

from agent.cli import console
from agent.records import SCHEMA_VERSION

EXAMPLE = "agent skill install .agents/skills"
app = typer.Typer(
    name="skill", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False, help="Install the skill for coding agents.",
)  # fmt: skip


@app.callback(epilog=f"Example: {EXAMPLE}")
def _group() -> None:
    """Install the skill for coding agents."""


@app.command("install", epilog=f"Example: {EXAMPLE}")
def install(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the coding agent's skills.", file_okay=False)
    ] = Path(".agents/skills"),
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Write the skill to DIR/kernelwright.

    It explains the loop, the rules, the findings and known dead ends.
    """
    from agent.doors import skill

    written = skill.install(folder)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "files": list(map(str, written))})
        return
    for file in written:
        console.show(console.line(str(file)))
