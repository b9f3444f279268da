"""`agent kernels build`, and the kernel names that the `agent kernels` commands accept."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.api.judge import present_architecture
from agent.cli import console
from agent.errors import UsageError
from agent.kernels import sources
from agent.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from agent.kernels.built import Build
    from agent.kernels.parallel import Wanted

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Kernel names as printed by `agent kernels list`."),
]
All = Annotated[bool, typer.Option("--all", help="All shipped kernels.")]


def chosen_names(names: list[str] | None, every: bool, promoted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the kernels to use; `promoted` names are accepted in addition to the shipped ones.

    Raises UsageError for an unknown name, and unless exactly one of names and --all is given.
    """
    known = (*sources.NAMES, *promoted)
    if every == bool(names):
        raise UsageError("give kernel names or --all; known kernels: " + ", ".join(known))
    for name in names or ():
        if name not in known:
            hint = (
                "is a promoted ModelNew file, not an operator"
                if name in sources.promoted()
                else "is not a kernel"
            )
            raise UsageError(f"{name!r} {hint}; known kernels: {', '.join(known)}")
    return tuple(names) if names else known


def build(
    names: Names = None,
    every: All = False,
    arch: Annotated[
        str | None,
        typer.Option(help="Compute capability such as 90a; by default that of this machine's GPU."),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="Build only this dtype of kernels with a library per dtype. Repeatable."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write the libraries here, for machines without nvcc."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Maximum concurrent compilers.", show_default="by processors")
    ] = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Build kernels and the extension for replay into the cache."""
    from agent.kernels import built, parallel

    if unknown := set(dtype or ()) - set(sources.DTYPES):
        raise UsageError(f"--dtype {sorted(unknown)[0]!r}: there are {', '.join(sources.DTYPES)}")
    wanted = parallel.wanted(chosen_names(names, every), dtype)
    target = arch or present_architecture()
    rows = []
    with console.live(f"building {len(wanted) + 1} libraries for sm_{target}") as live:
        for path in _libraries(wanted, target, jobs or os.cpu_count() or 1):
            report = built.report(path)
            kept = built.ship(path, to) if to else path
            rows.append({"path": str(kept), **dict(report)})
            live.update(f"building for sm_{target}: {len(rows)} of {len(wanted) + 1} libraries are ready")
            if not json:
                _show_build(report, verbose)
    if json:
        console.emit_json({"schema_version": SCHEMA_VERSION, "builds": rows})
    elif to:
        console.show(f"to use them, set AGENT_KERNELS_BUILT={to.resolve()}")


def _libraries(wanted: "Sequence[Wanted]", target: str, jobs: int) -> Iterator[Path]:
    """Build and yield the wanted libraries, and the extension that replays their calls if it can be built."""
    from agent.kernels import parallel
    from agent.kernels.built import BuildFault
    from agent.kernels.replaying import extension

    with ThreadPoolExecutor(1) as beside:
        replaying = beside.submit(extension.library)
        yield from parallel.libraries(wanted, target, jobs)
        try:
            yield replaying.result()
        except BuildFault as fault:
            console.warn(f"{fault}; without it calls of kernels take longer")


def _show_build(report: "Build", verbose: bool) -> None:
    if not report.kernels:
        console.show(f"{report.kernel}: {report.arch}, built in {report.seconds:.1f} s")
        return
    spills = sum(kernel.spill_bytes or 0 for kernel in report.kernels)
    most = max((kernel.registers or 0 for kernel in report.kernels), default=0)
    part = "" if report.part == sources.ALL else f" {report.part}"
    console.show(
        f"{report.kernel}{part}: sm_{report.arch}, {len(report.kernels)} kernels, at most {most} registers, "
        f"{spills} bytes spilled, built in {report.seconds:.1f} s"
    )
    for kernel in report.kernels if verbose else ():
        words = f"{kernel.registers} registers, {kernel.spill_bytes} spilled"
        console.show(f"  {words}: {console.line(kernel.name)}")
