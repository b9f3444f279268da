"""Builds the extension of one load_inline call for the emulator.

The candidate's faults are findings; only a compiler that does not run is an exception. Code that the
emulator cannot take, and a gap in its own headers, is `unsupported` and no fault of the candidate.
It compiles and never loads or runs what it built.
"""

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from agent.emulator import build_findings, compiler, device_check, flags, rewrite
from agent.emulator.source_map import locate
from agent.emulator.toolchain import LINK_CHECKS, Toolchain
from agent.emulator.units import BuildRequest, binding_line, cuda_unit, main_unit
from agent.errors import EnvironmentFault
from agent.records import Finding, KernelResources, Record, digest

LANE = "emulator-slim"
_LOG_CHARACTERS = 20_000
_INCLUDE = re.compile(r"\s*(?:#|%:)\s*(?:include|include_next|embed|import)\b((?:[^/]|/(?![/*]))*)")
# A name below the include directories; no macro, no absolute path, no way up.
_HEADER = re.compile(r"""(?!.*\.\.)["<]\w[\w./+-]*[">]""")


class Built(Record):
    """What became of a request."""

    library: Path | None
    """The shared library to load; None where there is none."""
    seconds: float
    lane: str = LANE
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    """What NVIDIA's compiler says of each kernel; empty where it did not check them."""
    notes: tuple[str, ...] = ()
    """What was not checked, and why."""
    findings: tuple[Finding, ...] = ()
    """Why there is no library, headline first."""
    log: str = ""
    """The compiler's words, without this machine's paths."""
    unsupported: bool = False
    """The emulator cannot judge this code; another executor may."""


def extension(toolchain: Toolchain, request: BuildRequest, cache: Path, timeout_s: float = 120.0) -> Built:
    """The library for `request`, from `cache` where the same one was built before.

    Raises EnvironmentFault where the compiler cannot be run or the cache cannot be written.
    """
    started = time.monotonic()
    refused = _refusals(request)
    if refused:
        return Built(library=None, seconds=_since(started), findings=refused)
    constructs = _unsupported(request)
    if constructs:
        return _not_run_here(toolchain, request, constructs, cache, timeout_s)
    try:
        units = {"main": main_unit(request)}
        if request.cuda_sources:
            units["cuda"] = cuda_unit(request)
    except rewrite.RewriteError as error:
        return _not_run_here(toolchain, request, (_unreadable(error, request),), cache, timeout_s)
    try:
        return _cached(toolchain, request, units, cache, timeout_s)
    except OSError as error:
        raise EnvironmentFault(f"cannot build in {cache}: {error}") from error


def _not_run_here(
    toolchain: Toolchain, request: BuildRequest, found: tuple[Finding, ...], cache: Path, timeout_s: float
) -> Built:
    """What the emulator does not take may still be wrong, and NVIDIA's compiler knows."""
    started = time.monotonic()
    try:
        verdict = device_check.alone(toolchain, request, cache, timeout_s)
    except OSError as error:
        raise EnvironmentFault(f"cannot build in {cache}: {error}") from error
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


def _cached(
    toolchain: Toolchain, request: BuildRequest, units: dict[str, str], cache: Path, timeout_s: float
) -> Built:
    started = time.monotonic()
    words = [f"{unit}:{flag}" for unit in units for flag in _candidate_flags(request, unit)]
    parts = (device_check.key(request), *words, *units.keys(), *units.values())
    place = cache / digest(toolchain.key, *parts)[:32]
    record = place / "built.json"
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "lock", timeout=timeout_s * 2):
        if record.is_file():
            built = Built.model_validate_json(record.read_text())
            if built.library is not None and built.library.is_file():
                return built.model_copy(update={"seconds": _since(started)})
        with tempfile.TemporaryDirectory(dir=place, prefix="building-") as scratch:
            built = _compile(toolchain, request, units, Path(scratch), timeout_s)
            if built.library is None:
                return built
            kept = built.library.rename(place / "extension.so")
        built = built.model_copy(update={"library": kept, "seconds": _since(started)})
        written = record.with_suffix(".new")
        written.write_text(built.model_dump_json())
        written.rename(record)
    return built


def _compile(
    toolchain: Toolchain, request: BuildRequest, units: dict[str, str], scratch: Path, timeout_s: float
) -> Built:
    started = time.monotonic()
    commands = []
    for unit, text in units.items():
        (scratch / f"{unit}.cpp").write_text(text, encoding="utf-8", errors="surrogatepass")
        commands.append(_unit_command(toolchain, request, unit, scratch))
    check = device_check.DeviceCheck(toolchain, request, scratch)
    outcomes = compiler.run([*commands, *check.commands()], scratch, timeout_s)
    outcomes, checked = outcomes[: len(commands)], outcomes[len(commands) :]
    succeeded = all(outcome.succeeded for outcome in outcomes)
    verdict = check.verdict(checked, timeout_s, retry=succeeded)
    log = build_findings.clean("\n".join(outcome.messages for outcome in outcomes))[:_LOG_CHARACTERS]
    messages = [message for outcome in outcomes for message in compiler.parse(outcome.messages)]
    seen = Built(
        library=None,
        seconds=0,
        warnings=tuple(dict.fromkeys((*build_findings.warnings(messages), *verdict.warnings))),
        kernels=verdict.kernels,
        notes=device_check.notes(request, verdict),
        log=log,
    )
    if not succeeded:
        found = build_findings.of_messages(messages, request, toolchain)
        found = _stopped(outcomes, timeout_s) or device_check.weighed(found, verdict, request)
        return _failed(found, started, seen)
    if verdict.findings:
        words = "\n".join(finding.evidence or finding.message for finding in verdict.findings)
        return _failed(verdict.findings, started, _logged(seen, words))
    library = scratch / "extension.so"
    linked = compiler.run([_link_command(toolchain, units, library)], scratch, timeout_s)
    if not linked[0].succeeded:
        words = linked[0].messages
        found = _stopped(linked, timeout_s) or build_findings.of_link(words, request, toolchain)
        return _failed(found, started, _logged(seen, build_findings.clean(words)))
    return seen.model_copy(update={"library": library, "seconds": _since(started)})


def _logged(seen: Built, words: str) -> Built:
    return seen.model_copy(update={"log": f"{seen.log}\n{words}".strip()[:_LOG_CHARACTERS]})


def _failed(found: tuple[Finding, ...], started: float, seen: Built) -> Built:
    crash = Finding(kind="compile-error", message="The compiler failed without a message.")
    findings = found or (crash.model_copy(update={"evidence": seen.log[:2000] or None}),)
    unsupported = findings[0].kind == "header-gap"
    update = {"findings": findings, "unsupported": unsupported, "seconds": _since(started)}
    return seen.model_copy(update=update)


def _unit_command(toolchain: Toolchain, request: BuildRequest, unit: str, scratch: Path) -> list[str]:
    kind = "device" if unit == "cuda" else "host"
    chosen = toolchain.device_flags if kind == "device" else toolchain.host_flags
    return [
        str(toolchain.gxx), *chosen, *_candidate_flags(request, unit), *toolchain.includes(),
        "-include", str(toolchain.prelude(kind)), "-fmax-errors=20", "-fno-diagnostics-show-caret",
        "-ftemplate-backtrace-limit=6", "-fdiagnostics-color=never", "-c", f"{unit}.cpp", "-o", f"{unit}.o",
    ]  # fmt: skip


def _link_command(toolchain: Toolchain, units: dict[str, str], library: Path) -> list[str]:
    # -z defs: what torch would meet as an undefined symbol at import is an error here.
    return [
        str(toolchain.gxx), "-shared", *(f"{unit}.o" for unit in units), str(toolchain.runtime),
        "-Wl,-z,defs", "-Wl,--no-undefined", "-Wl,--demangle", LINK_CHECKS, "-o", str(library),
    ]  # fmt: skip


def _candidate_flags(request: BuildRequest, unit: str) -> list[str]:
    given = request.extra_cuda_cflags if unit == "cuda" else request.extra_cflags
    return flags.effective(given)[0]


def _stopped(outcomes: Sequence[compiler.Outcome], timeout_s: float) -> tuple[Finding, ...]:
    if any(outcome.failure == "timeout" for outcome in outcomes):
        message = f"Compiling took longer than {timeout_s:g} s and was stopped."
        return (Finding(kind="build-timeout", message=message),)
    return ()


def _refusals(request: BuildRequest) -> tuple[Finding, ...]:
    """What is not even given to the compiler."""
    found = []
    for option in ("extra_cflags", "extra_cuda_cflags"):
        for flag in flags.effective(getattr(request, option))[1]:
            found.append(_flag(request, option, flag))
    found += [_flag(request, "extra_ldflags", flag) for flag in flags.refused_links(request.extra_ldflags)]
    found += [_flag(request, "extra_include_paths", path) for path in request.extra_include_paths]
    for function in request.functions or {}:
        if not re.fullmatch(r"[A-Za-z_]\w*", function):
            location = build_findings.at_line(request, binding_line(request, function))
            message = f"`functions` takes names, not signatures: `{function[:120]}` is no name."
            found.append(Finding(kind="not-a-name", message=message, location=location))
    return (*found, *_foreign_includes(request))


def _foreign_includes(request: BuildRequest) -> list[Finding]:
    """An include of a file by its place on the machine would show that file in the messages."""
    found = []
    for text in (request.cpp, request.cuda):
        places = locate(text, request.candidate_source)
        for index, line in enumerate(text.split("\n")):
            included = _INCLUDE.match(line)
            if included and not _HEADER.fullmatch(included[1].strip()):
                location = build_findings.at_line(request, places[index])
                shown = included[1].strip()[:80]
                message = f"#include of {shown}: only headers of the toolkit, torch and C++ are there."
                found.append(Finding(kind="include-not-allowed", message=message, location=location))
    return found


def _flag(request: BuildRequest, option: str, flag: str) -> Finding:
    return Finding(
        kind="flag-not-allowed",
        message=f"{option} has `{flag}`, which is not taken here: use optimisation, architecture and "
        "definition flags only.",
        location=build_findings.at_line(request, binding_line(request, flag)),
    )


def _unsupported(request: BuildRequest) -> tuple[Finding, ...]:
    found = []
    for text in (request.cuda, request.cpp):
        places = locate(text, request.candidate_source)
        for construct in rewrite.unsupported(text):
            found.append(
                Finding(
                    kind="unsupported-construct",
                    message=f"The emulator does not run {construct.name}; a GPU may.",
                    location=build_findings.at_line(request, places[construct.line - 1]),
                )
            )
    return tuple(found)


def _unreadable(error: rewrite.RewriteError, request: BuildRequest) -> Finding:
    places = locate(request.cuda, request.candidate_source)
    line = places[error.line - 1] if 0 < error.line <= len(places) else None
    return Finding(kind="compile-error", message=str(error), location=build_findings.at_line(request, line))


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
