"""`agent export RUN`: a verified kernel as a package that needs torch alone."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent.api import Run
from agent.cli import console
from agent.records import SCHEMA_VERSION


class Form(StrEnum):
    FOLDER = "folder"
    TORCH_LIBRARY = "torch-library"


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Path, id or recorded/NAME of a run.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to write, a new one.")],
    form: Annotated[
        Form, typer.Option("--format", help="folder: the module; torch-library: an operator as well.")
    ] = Form.FOLDER,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the package.", show_default="by the problem")
    ] = None,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Write the best kernel of a run as a Python package, with its verdict, that others build and import."""
    from agent.doors.package import export as written

    files = written(Run.open(run, runs_dir=runs_dir), to, form.value, name)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "files": list(map(str, files))})
        return
    for file in files:
        console.show(console.line(str(file)))
