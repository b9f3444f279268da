"""Builds an extension whose device code runs from nvcc's PTX, and whose host code is compiled by g++.

nvcc and the two host units run side by side; the translated kernels follow. Whatever this route cannot
take raises Untranslated, and says nothing about the candidate.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from agent.emulator import compiler, flags, ptx, ptx_host, rewrite
from agent.emulator.device_check import DeviceCheck
from agent.emulator.nvcc import MISSING
from agent.emulator.ptx import Untranslated
from agent.emulator.source_map import CANDIDATE, locate, with_directives
from agent.emulator.toolchain import CHECKS, Toolchain
from agent.emulator.units import BuildRequest, launch_lines, main_unit

LANE = "emulator-ptx"
UNIT = "translated"
_SOURCES = (CANDIDATE, "cuda_sources")
_NM_SECONDS = 60
# Variables that only the compiler made: host code cannot name them.
_GENERATED = re.compile(r"\$|__unnamed_|__cudart_|_ZZ|_ZT[VIS]|__nv_|__constant\d*\$")


def host_unit(request: BuildRequest) -> str:
    """Text of cuda.cu for g++, without the kernels' bodies."""
    try:
        lines = locate(request.cuda, request.candidate_source)
        rewritten = launch_lines(rewrite.device_source(ptx_host.source(request.cuda)), lines)
    except rewrite.RewriteError as error:
        raise Untranslated(str(error), error.line) from error
    return with_directives(rewritten, lines, "cuda_sources") + "\n"


def device_object(toolchain: Toolchain, scratch: Path, timeout_s: float) -> str:
    """Makes an object file of `device.ptx`, to be linked with the host unit's `cuda.o`, both in `scratch`.

    Returns its name.
    """
    symbols = _symbols(scratch / "cuda.o")
    text = (scratch / "device.ptx").read_text(encoding="utf-8", errors="replace")
    variables = {name for name, kind in symbols if kind in "BDGSVW"}
    unit = ptx.unit(text, _SOURCES, variables)
    _agree(unit, symbols)
    bindings = [_binding(entry) for entry in unit.entries]
    (scratch / f"{UNIT}.cpp").write_text("".join((unit.text, *bindings)), encoding="utf-8")
    [outcome] = compiler.run([_command(toolchain)], scratch, timeout_s, toolchain.visible)
    if not outcome.succeeded:
        said = [row for row in outcome.messages.splitlines() if "error" in row]
        raise Untranslated(f"the translation did not compile: {said[0] if said else outcome.failure}")
    return f"{UNIT}.o"


def library(toolchain: Toolchain, request: BuildRequest, scratch: Path, timeout_s: float = 120.0) -> Path:
    """The extension of `request`, which has device code, built in the directory `scratch`."""
    units = {"main": main_unit(request), "cuda": host_unit(request)}
    commands = []
    for name, text in units.items():
        (scratch / f"{name}.cpp").write_text(text, encoding="utf-8", errors="surrogatepass")
        commands.append(_host_command(toolchain, request, name))
    check = DeviceCheck(toolchain, request, scratch, scratch)
    outcomes = compiler.run([*commands, *check.commands()], scratch, timeout_s, toolchain.visible)
    verdict = check.verdict(outcomes[2:], timeout_s, retry=True)
    if not verdict.accepted:
        raise Untranslated(f"nvcc did not take the device code: {verdict.gap or MISSING}")
    if not all(outcome.succeeded for outcome in outcomes[:2]):
        raise Untranslated("g++ did not take the host code")
    objects = ["main.o", "cuda.o", device_object(toolchain, scratch, timeout_s)]
    made = scratch / "extension.so"
    link = [
        str(toolchain.gxx), "-shared", *objects, str(toolchain.runtime), "-Wl,-z,defs", "-o", str(made),
    ]  # fmt: skip
    if not compiler.run([link], scratch, timeout_s, toolchain.visible)[0].succeeded:
        raise Untranslated("the host and device code do not link")
    return made


def _host_command(toolchain: Toolchain, request: BuildRequest, unit: str) -> list[str]:
    kind, given = ("device", request.extra_cuda_cflags) if unit == "cuda" else ("host", request.extra_cflags)
    chosen = toolchain.device_flags if kind == "device" else toolchain.host_flags
    return [
        str(toolchain.gxx), *chosen, *flags.effective(given)[0], *toolchain.includes(),
        "-include", str(toolchain.prelude(kind)), "-fmax-errors=3", "-c", f"{unit}.cpp", "-o", f"{unit}.o",
    ]  # fmt: skip


def _command(toolchain: Toolchain) -> list[str]:
    kept = [flag for flag in toolchain.device_flags if flag.startswith(("-std", "-march", "-fPIC"))]
    checks = CHECKS if set(CHECKS) <= set(toolchain.device_flags) else ()
    return [
        str(toolchain.gxx), *kept, *ptx.FLAGS, *checks, *toolchain.includes(), "-fmax-errors=3",
        "-c", f"{UNIT}.cpp", "-o", f"{UNIT}.o",
    ]  # fmt: skip


def _binding(entry: ptx.Entry) -> str:
    pointer = ptx_host.pointer_symbol(entry.name)
    return (
        f'extern "C" __attribute__((visibility("hidden"))) void (*volatile {entry.symbol}_bound)(void*) '
        f'__asm__("{pointer}");\nvoid (*volatile {entry.symbol}_bound)(void*) = {entry.symbol};\n'
    )


def _agree(unit: ptx.Unit, symbols: Iterable[tuple[str, str]]) -> None:
    """Every stub has its kernel, and host code has no variable of its own where the kernels have one."""
    bound = {ptx_host.pointer_symbol(entry.name) for entry in unit.entries}
    local = [name for name, kind in symbols if kind in "bd"]
    for name, kind in symbols:
        if name.endswith(f"E{len(ptx_host.POINTER)}{ptx_host.POINTER}") and (
            name not in bound or kind in "bd"
        ):
            raise Untranslated(f"kernel {name}")
    outside = {name for name, _ in symbols}
    for variable in unit.variables:
        if variable in outside or _GENERATED.match(variable):
            continue
        plain = re.search(r"(\d+)([A-Za-z_]\w*?)E?$", variable) if variable.startswith("_Z") else None
        identifier = plain[2] if plain else variable
        if any(f"{len(identifier)}{identifier}" in name for name in local):
            raise Untranslated(f"variable {identifier}")


def _symbols(object_file: Path) -> list[tuple[str, str]]:
    """Name and kind of every symbol that the object defines, as nm prints them."""
    command = ["nm", "--defined-only", str(object_file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_NM_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Untranslated("the symbols of the host unit cannot be read") from error
    rows = (row.split() for row in done.stdout.splitlines())
    return [(row[2], row[1]) for row in rows if len(row) == 3]
