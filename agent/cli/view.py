"""`agent view [RUN]`: show runs in a browser, or write one to a single HTML file."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from agent import config, store
from agent.bench import Bench, open_bench
from agent.bench.folder import MANIFEST, PREFIX
from agent.cli import console, serving
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION


def view(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Run (path, id, unique prefix of an id, or recorded/NAME) or bench (path or id).",
            show_default=False,
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
    """Show all runs, one run or a bench in a browser on this machine. Ctrl-C stops the server.

    Runs in progress update live.

    --export starts no server; the file contains everything and opens from disk.
    """
    folder = config.load({"runs_dir": runs_dir}, offline=True).settings.runs_dir
    found = _named(run, folder)
    if export is not None:
        _export(found, export, json)
        return

    def ready(address: str) -> None:
        serving.announce(address, json, "press Ctrl-C to stop the server")
        if open_page:
            webbrowser.open(address)

    with serving.needs_extra("agent view", "view"):
        from agent.viewer.server import serve
    serve(found.runs_dir if isinstance(found, Bench) else folder, found, port, ready)


def _named(run: str | None, runs_dir: Path) -> store.Run | Bench | None:
    """Return the run or bench named by its path, its id or a unique prefix of its id."""
    if run and (run.startswith(PREFIX) or (Path(run) / MANIFEST).is_file()):
        return open_bench(run, runs_dir)
    return store.open_run(run, runs_dir) if run is not None else None


def _export(run: store.Run | Bench | None, file: Path, json: bool) -> None:
    if isinstance(run, Bench):
        raise UsageError(f"a bench is written by: agent bench report {run.id} --format html --out FILE")
    if run is None:
        raise UsageError("--export needs a run, as in: agent view RUN --export run.html")
    from agent.viewer import export

    size = export.write(run, file)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "file": str(file), "bytes": size})
    else:
        console.show(f"{console.line(str(file))}, {size / 1000:,.0f} kB")
