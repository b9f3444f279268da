"""`agent export RUN|KERNEL`: write a verified kernel as a package that needs only torch."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent.api import Run
from agent.cli import console
from agent.errors import UnknownRun, UsageError
from agent.records import SCHEMA_VERSION


class Form(StrEnum):
    FOLDER = "folder"
    TORCH_LIBRARY = "torch-library"
    HF_KERNELS = "hf-kernels"


def export(
    of: Annotated[
        str,
        typer.Argument(
            metavar="RUN|KERNEL",
            help="Run (path, id or recorded/NAME), or kernel as printed by `agent kernels list`.",
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="New folder to write.")],
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="folder: a module; torch-library: also a torch operator; hf-kernels: both, laid out for "
            "Hugging Face's kernel builder.",
        ),
    ] = Form.FOLDER,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the package.", show_default="from the problem")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option("--arch", help="For a KERNEL: include the code path for this GPU, such as 90a."),
    ] = None,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Export a verified kernel and its verdict as a standalone package that others can build and import."""
    from agent.doors.package import export as written
    from agent.doors.package import origins

    if origins.is_kernel(of):
        origin = origins.of_kernel(of, arch)
    elif arch is not None:
        raise UsageError("--arch is for shipped kernels; a run's best is exported as it was judged")
    else:
        try:
            run = Run.open(of, runs_dir=runs_dir)
        except UnknownRun as error:
            raise UsageError(f"{error}; no kernel has that name either: {origins.near(of)}") from None
        origin = origins.of_run(run)
    files = written(origin, to, form.value, name)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "files": list(map(str, files))})
        return
    for file in files:
        console.show(console.line(str(file)))
