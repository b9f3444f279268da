"""`agent view [RUN]`: the runs in a browser, or one of them as a single HTML file."""

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from agent import config, store
from agent.cli import console
from agent.errors import EnvironmentFault, UsageError
from agent.records import SCHEMA_VERSION

_MISSING = "agent view needs packages that are not installed: pip install 'kernelwright[view]'"


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN", help="Path, id, unique prefix of an id, or recorded/NAME.", show_default=False
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE.html",
            help="Write the run to a single HTML file instead of starting a server.",
            dir_okay=False,
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the default browser.")] = False,
    port: Annotated[
        int,
        typer.Option("--port", help="TCP port on 127.0.0.1.", min=0, max=65535, show_default="a free one"),
    ] = 0,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Serve all runs, or one, to a browser on this machine; runs in progress update live. Ctrl-C stops it.

    --export starts no server: the file contains everything and opens from disk.
    """
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = store.open_run(run, folder) if run is not None else None
    if export is not None:
        _export(found, export, json)
        return

    def ready(address: str) -> None:
        if json:
            console.emit_json({"schema_version": SCHEMA_VERSION, "url": address})
        else:
            console.show(address)
        console.say("press Ctrl-C to stop the server")
        if open_page:
            webbrowser.open(address)

    _server()(folder, found, port, ready)


def _server() -> Callable[[Path, store.Run | None, int, Callable[[str], None]], None]:
    """What serves. Raises EnvironmentFault where the extra is not installed."""
    try:
        from agent.viewer.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "agent":
            raise
        raise EnvironmentFault(_MISSING) from error
    return serve


def _export(run: store.Run | None, file: Path, json: bool) -> None:
    if run is None:
        raise UsageError("--export needs a run, as in: agent view RUN --export run.html")
    from agent.viewer import export

    size = export.write(run, file)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "file": str(file), "bytes": size})
    else:
        console.show(f"{console.line(str(file))}, {size / 1000:,.0f} kB")
