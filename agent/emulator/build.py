"""Builds the extension of one load_inline call for the emulator.

The candidate's faults are findings; only a compiler that does not run is an exception. Code that the
emulator cannot take, and a gap in its own headers, is `unsupported` and no fault of the candidate.
It compiles and never loads or runs what it built.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from agent.emulator import assembly, compiler, device_check, full_lane, refusals, rewrite
from agent.emulator.assembly import Workshop
from agent.emulator.built import LANE, Built
from agent.emulator.objects import Unit
from agent.emulator.toolchain import Progress, Toolchain
from agent.emulator.units import BuildRequest, cuda_unit, main_unit
from agent.errors import EnvironmentFault
from agent.records import Finding, digest

__all__ = ["LANE", "Built", "extension"]


def extension(
    toolchain: Toolchain, request: BuildRequest, cache: Path, timeout_s: float = 120.0,
    progress: Progress | None = None,
) -> Built:  # fmt: skip
    """The library for `request`, from `cache` where the same one was built before.

    `progress` is for torch's own headers, which are prepared when a request needs them for the first time.
    Raises EnvironmentFault where the compiler cannot be run or the cache cannot be written.
    """
    started = time.monotonic()
    refused = refusals.of_request(request)
    if refused:
        return Built(library=None, seconds=_since(started), findings=refused)
    workshop = Workshop(toolchain, cache, timeout_s)
    try:
        constructs = refusals.unsupported(request)
        if constructs:
            return _not_run_here(workshop, request, constructs)
        try:
            units = _units(toolchain, request)
        except rewrite.RewriteError as error:
            return _not_run_here(workshop, request, (refusals.unreadable(error, request),))
        built = _cached(workshop, request, units)
        built = full_lane.instead(built, workshop, request, progress)
        return built.model_copy(update={"seconds": _since(started)})
    except OSError as error:
        raise EnvironmentFault(f"cannot build in {cache}: {error}") from error


def _units(toolchain: Toolchain, request: BuildRequest) -> list[Unit]:
    texts = {"main": main_unit(request)}
    if request.cuda_sources:
        texts["cuda"] = cuda_unit(request)
    return [assembly.unit(toolchain, request, name, text) for name, text in texts.items()]


def _not_run_here(workshop: Workshop, request: BuildRequest, found: tuple[Finding, ...]) -> Built:
    """What the emulator does not take may still be wrong, and NVIDIA's compiler knows."""
    started = time.monotonic()
    verdict = device_check.alone(workshop.toolchain, request, workshop.cache, workshop.timeout_s)
    if verdict.accepted and found[0].kind == "compile-error":
        found = tuple(map(device_check.as_gap, found))
    return Built(
        library=None,
        seconds=_since(started),
        warnings=verdict.warnings,
        kernels=verdict.kernels,
        notes=device_check.notes(request, verdict),
        findings=verdict.findings or found,
        unsupported=not verdict.findings and found[0].kind != "compile-error",
    )


def _cached(workshop: Workshop, request: BuildRequest, units: Sequence[Unit]) -> Built:
    started = time.monotonic()
    parts = (device_check.key(request), *(unit.identity for unit in units))
    place = workshop.cache / digest(workshop.toolchain.key, *parts)[:32]
    record = place / "built.json"
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "lock", timeout=workshop.timeout_s * 2):
        if record.is_file():
            built = Built.model_validate_json(record.read_text())
            if built.library is not None and built.library.is_file():
                return built.model_copy(update={"seconds": _since(started)})
        with tempfile.TemporaryDirectory(dir=place, prefix="building-") as scratch:
            built = assembly.library(workshop, request, units, Path(scratch))
            if built.library is None:
                return built
            kept = compiler.take(built.library, place / "extension.so")
        built = built.model_copy(update={"library": kept, "seconds": _since(started)})
        written = record.with_suffix(".new")
        written.write_text(built.model_dump_json())
        written.rename(record)
    return built


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
