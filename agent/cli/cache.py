"""`agent cache`: show or clear the cache shared by all runs."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from agent import config
from agent.cli import columns, console
from agent.errors import EnvironmentFault, UsageError
from agent.records import SCHEMA_VERSION

PARTS = {
    "emulator": "emulator runtime library, precompiled headers",
    "traces": "operators and shapes of references",
    "builds": "built candidates",
    "sizes": "reduced problem sizes for the emulator",
    "kernels": "shipped kernels built for GPUs",
    "schedules": "fastest schedules of composed kernels by GPU",
    "admission": "results of trying wrong answers on problems",
}
"""Subfolders of the cache. Other files under `cache_dir` are neither counted nor deleted."""


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete the cache; the next run rebuilds it.")
    ] = False,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show the contents and sizes of the cache, or clear it."""
    resolved = config.load({}, offline=True)
    folder = resolved.settings.cache_dir
    sizes = {name: _size(folder / name) for name in PARTS}
    if clear:
        layer = resolved.layers.get("cache_dir")
        if layer and layer.kind == "project":
            raise UsageError(
                f"{resolved.origin('cache_dir')} sets cache_dir to {folder}, and --clear "
                "does not delete a folder named by a project file; set AGENT_CACHE_DIR to clear it"
            )
        for name in PARTS:
            _delete(folder / name)
    if json:
        parts = [{"name": name, "bytes": size} for name, size in sizes.items()]
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "path": str(folder), "parts": parts, "cleared": clear}
        )
        return
    rows = [(name, _megabytes(size), PARTS[name]) for name, size in sizes.items()]
    console.show(f"{'cleared' if clear else 'cache'}: {console.line(str(folder))}")
    console.show_lines(columns.lines(("part", "size", "contents"), rows, console.stdout().width, right=(1,)))


def _size(folder: Path) -> int:
    """Return the total bytes of all files below the folder, without following links."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)


def _delete(folder: Path) -> None:
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise EnvironmentFault(f"cannot delete {folder}: {error.strerror}") from error


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
