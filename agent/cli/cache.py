"""`agent cache`: what is kept between runs, and clearing it."""

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from agent import config
from agent.cli import console
from agent.errors import EnvironmentFault, UsageError
from agent.records import SCHEMA_VERSION

PARTS = {
    "emulator": "runtime library and precompiled headers of the emulator",
    "builds": "candidates built before",
    "sizes": "sizes at which problems are judged on the emulator",
    "kernels": "shipped kernels, built for GPUs",
    "admission": "what probing problems with wrong answers found",
}
"""Folders of the cache; nothing else under `cache_dir` is counted or deleted."""


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete it; the next run prepares it again.")
    ] = False,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Show what is cached and how large it is, or clear it."""
    resolved = config.load({}, offline=True)
    folder = resolved.settings.cache_dir
    sizes = {name: _size(folder / name) for name in PARTS}
    if clear:
        layer = resolved.layers.get("cache_dir")
        if layer and layer.kind == "project":
            raise UsageError(
                f"{resolved.origin('cache_dir')} names the cache folder {folder}, and a project's file "
                "may not say what is deleted; set AGENT_CACHE_DIR to it"
            )
        for name in PARTS:
            _delete(folder / name)
    if json:
        parts = [{"name": name, "bytes": size} for name, size in sizes.items()]
        console.emit_json(
            {"schema_version": SCHEMA_VERSION, "path": str(folder), "parts": parts, "cleared": clear}
        )
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("part", "size", "what"):
        table.add_column(column, justify="right" if column == "size" else "left")
    for name, size in sizes.items():
        table.add_row(name, _megabytes(size), PARTS[name])
    console.show(f"{'cleared' if clear else 'cache'}: {console.line(str(folder))}", table)


def _size(folder: Path) -> int:
    """Bytes of the files below; links are not followed."""
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
