"""Build of the extension of one load_inline call for the emulator.

Faults of the candidate are findings; a compiler that does not run is an exception. Code that the emulator
does not support, and names that its headers lack, are `unsupported` and not faults of the candidate. This
module never loads or runs the libraries that it builds.
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
    """Build the library for `request`, or take it from `cache`.

    `progress` reports the preparation of torch's own headers, when a request first needs them. Raise
    EnvironmentFault if the compiler cannot be run or the cache cannot be written.
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
    """Build by rewriting, which checks more, and fall back to NVIDIA's PTX where rewriting fails."""
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
    """Return True if device code uses the missing name, or it is a toolkit header for device code alone."""
    return device_check.is_gap_in_device_code(gap, request) or header_gap.is_of_toolkit(gap)


def _from_ptx_alone(
    workshop: Workshop, request: BuildRequest, found: tuple[Finding, ...], otherwise: Built | None = None
) -> Built:
    """Build code that the rewriting route does not support with kernels translated from PTX.

    `found` are the findings of the rewriting route. Its result `otherwise` is returned if PTX fails too.
    """
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
    """Return NVIDIA's findings for code that the emulator does not support, or else `found`."""
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
    """Build the library by one route, or take it from the cache.

    Raise RewriteError for text that cannot be rewritten. Raise Untranslated if the route is `stubbed` and the
    kernels cannot come from the PTX alone.
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
