"""Builds the extension of one load_inline call for the emulator.

The candidate's faults are findings; only a compiler that does not run is an exception. Code that the
emulator cannot take, and a gap in its own headers, is `unsupported` and no fault of the candidate.
It compiles and never loads or runs what it built.
"""

import time
from pathlib import Path

from agent.build import header_gap, nvcc, refusals
from agent.build.build_request import BuildRequest
from agent.build.outcome import BACKEND, Built, kept
from agent.build.toolchain import Progress, Toolchain
from agent.emulator.compile import assembly, device_check, full_build, loaders
from agent.emulator.compile.assembly import Assembly, Route, Workshop
from agent.emulator.frontend import own_names, rewrite, unsupported
from agent.emulator.ptx import Untranslated
from agent.errors import EnvironmentFault
from agent.records import Finding, digest

__all__ = ["BACKEND", "Built", "by_route", "extension"]


def extension(
    toolchain: Toolchain, request: BuildRequest, cache: Path, timeout_s: float = 120.0,
    progress: Progress | None = None,
) -> Built:  # fmt: skip
    """The library for `request`, from `cache` where the same one was built before.

    `progress` is for torch's own headers, which are prepared when a request needs them for the first time.
    Raises EnvironmentFault where the compiler cannot be run or the cache cannot be written.
    """
    started = time.monotonic()
    refused = (*refusals.of_request(request), *own_names.findings(request))
    if refused:
        return Built(library=None, seconds=_since(started), findings=refused)
    try:
        workshop = Workshop(toolchain, cache, timeout_s)
        built = full_build.instead(_by_some_route(workshop, request), workshop, request, progress)
        built = loaders.refused(built)
    except OSError as error:
        raise EnvironmentFault(f"cannot build in {cache}: {error}") from error
    return built.model_copy(update={"seconds": _since(started)})


def _by_some_route(workshop: Workshop, request: BuildRequest) -> Built:
    """Rewriting first: it checks more. What it does not take may still run from NVIDIA's code alone."""
    may_have_ptx = bool(request.cuda.strip()) and nvcc.find() is not None
    constructs = unsupported.findings(request)
    if constructs:
        if may_have_ptx and unsupported.may_run_from_ptx(request):
            return _from_ptx_alone(workshop, request, constructs)
        return _not_run_here(workshop, request, constructs)
    route: Route = "switched" if may_have_ptx else "rewritten"
    try:
        built = by_route(workshop, request, route)
    except rewrite.RewriteError as error:
        found = (unsupported.unreadable(error, request),)
        return (
            _from_ptx_alone(workshop, request, found)
            if may_have_ptx
            else _not_run_here(workshop, request, found)
        )
    if may_have_ptx and built.findings and _may_run_from_ptx(built.findings[0], request):
        return _from_ptx_alone(workshop, request, built.findings, otherwise=built)
    return built


def _may_run_from_ptx(gap: Finding, request: BuildRequest) -> bool:
    """Return True for a gap in device code, or of a toolkit header that device code alone may need."""
    return device_check.is_gap_in_device_code(gap, request) or header_gap.is_of_toolkit(gap)


def _from_ptx_alone(
    workshop: Workshop, request: BuildRequest, found: tuple[Finding, ...], otherwise: Built | None = None
) -> Built:
    """For code that rewriting does not take: `found` says why, `otherwise` is what came of it."""
    try:
        built = by_route(workshop, request, "stubbed")
    except Untranslated as error:
        if otherwise is None and found[0].kind == "unsupported-construct":
            found = unsupported.untranslated(error, found, request)
        return otherwise or _not_run_here(workshop, request, found)
    if built.unsupported:
        return otherwise or _not_run_here(workshop, request, found)
    if built.library is None:
        return built
    return built.model_copy(update={"notes": (*built.notes, unsupported.from_ptx_alone(found[0]))})


def _not_run_here(workshop: Workshop, request: BuildRequest, found: tuple[Finding, ...]) -> Built:
    """What the emulator does not take may still be wrong, and NVIDIA's compiler knows."""
    verdict = device_check.alone(workshop.toolchain, request, workshop.cache, workshop.timeout_s)
    if verdict.accepted and found[0].kind == "compile-error":
        found = tuple(map(device_check.as_gap, found))
    return Built(
        library=None,
        seconds=0,
        warnings=verdict.warnings,
        kernels=verdict.kernels,
        notes=device_check.notes(request, verdict),
        findings=verdict.findings or found,
        unsupported=not verdict.findings and found[0].kind != "compile-error",
    )


def by_route(workshop: Workshop, request: BuildRequest, route: Route) -> Built:
    """The library by one route, from the cache where it was built before.

    Raises RewriteError for text that cannot be rewritten, and Untranslated where the route is `stubbed` and
    the kernels cannot come from the PTX alone.
    """
    units = assembly.units(workshop.toolchain, request, route)
    parts = (route, device_check.key(request), *(unit.identity for unit in units))
    place = workshop.cache / digest(workshop.toolchain.key, *parts)[:32]
    return kept(
        place,
        workshop.timeout_s * 2,
        lambda scratch: Assembly(workshop, request, units, route, scratch).library(),
    )


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
