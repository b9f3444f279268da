"""Units of a build whose kernels run from NVIDIA's PTX: the host side, and the translated kernels.

Code that this route does not support raises Untranslated, which is not a fault of the candidate.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from agent.build import compiler, elf, nvcc
from agent.build.build_request import BuildRequest
from agent.build.cuda_text import with_named_namespaces
from agent.build.elf import Symbol
from agent.build.objects import Unit
from agent.build.source_map import CANDIDATE, candidate_line, locate
from agent.build.toolchain import Toolchain
from agent.emulator import ptx
from agent.emulator.compile.toolchain import CHECKS
from agent.emulator.frontend import rewrite
from agent.emulator.frontend.device_unit import cuda_unit
from agent.emulator.ptx import Untranslated, host

BACKEND = "emulator-ptx"
UNIT = "translated"
_SOURCES = (CANDIDATE, "cuda_sources")
_INDIRECT = re.compile(r"^\s*\w+\s*:\s*\.callprototype\b", re.MULTILINE)
_SANITIZER = ("-fsanitize", "--param=tsan")
# Names of variables that the compiler generated, which host code cannot use.
_GENERATED = re.compile(r"\$|__unnamed_|__cudart_|_ZZ|_ZT[VIS]|__nv_|__constant\d*\$")


def stubbed_unit(request: BuildRequest) -> str:
    """Return the text of cuda.cu for g++ with stubs as kernel bodies; the kernels come from the PTX.

    Raise Untranslated, with the candidate's line, if the text cannot be rewritten.
    """
    try:
        return cuda_unit(request, host.stubbed(with_named_namespaces(request.cuda)))
    except (Untranslated, rewrite.RewriteError) as error:
        what = error.instruction if isinstance(error, Untranslated) else str(error)
        lines = locate(request.cuda, request.candidate_source)
        line = lines[error.line - 1] if 0 < error.line <= len(lines) else None
        raise Untranslated(what, line or 0) from error


def switched_unit(request: BuildRequest) -> str:
    """Return the text of cuda.cu for g++, whose kernels run from the PTX in unchecked launches.

    Raise rewrite.RewriteError if the text cannot be rewritten.
    """
    return cuda_unit(request, host.switched(with_named_namespaces(request.cuda)))


def translated_unit(toolchain: Toolchain, request: BuildRequest, scratch: Path, *, alone: bool) -> Unit:
    """Translate the kernels of `device.ptx`, to be linked with `cuda.o`; both files are in `scratch`.

    With `alone`, the kernels have no other body, so all of them must be translated and compiled with checks.
    Raise Untranslated if the kernels cannot come from the PTX.
    """
    symbols = _defined(compiler.take(scratch / "cuda.o", scratch / "taken.o"))
    text = compiler.take(scratch / nvcc.PTX, scratch / "taken.ptx").read_text(
        encoding="utf-8", errors="replace"
    )
    if _INDIRECT.search(text):
        # A table or object that host code made holds addresses of host functions.
        raise Untranslated("a call through a function pointer")
    variables = {symbol.name for symbol in symbols if symbol.is_variable and not symbol.is_local}
    unit = ptx.unit(text, _SOURCES, variables, _shared_lines(request))
    _agree(unit, symbols)
    if alone:
        _complete(unit, symbols)
    weak = {symbol.name for symbol in symbols if not _is_own(symbol)}
    bindings = [_binding(entry) for entry in unit.entries if host.pointer_symbol(entry.name) in weak]
    return Unit(name=UNIT, text="".join((unit.text, *bindings)), flags=_flags(toolchain, checked=alone))


def _shared_lines(request: BuildRequest) -> dict[str, int]:
    lines = locate(request.cuda, request.candidate_source)
    declared = host.shared_lines(request.cuda)
    return {name: candidate_line(lines, line) for name, line in declared.items()}


def _flags(toolchain: Toolchain, *, checked: bool) -> tuple[str, ...]:
    kept = [flag for flag in toolchain.device_flags if flag.startswith(("-std", "-march", "-fPIC"))]
    checks: tuple[str, ...] = CHECKS if set(CHECKS) <= set(toolchain.device_flags) else ()
    if not checked:
        checks = tuple(flag for flag in checks if not flag.startswith(_SANITIZER))
    return (*kept, *ptx.FLAGS, *checks)


def _binding(entry: ptx.Entry) -> str:
    pointer = host.pointer_symbol(entry.name)
    return (
        f'extern "C" __attribute__((visibility("hidden"))) void (*volatile {entry.symbol}_bound)(void*) '
        f'__asm__("{pointer}");\nvoid (*volatile {entry.symbol}_bound)(void*) = {entry.symbol};\n'
    )


def _agree(unit: ptx.Unit, symbols: Iterable[Symbol]) -> None:
    """Raise Untranslated if host code has a separate copy of a variable that the kernels use."""
    local = [symbol.name for symbol in symbols if _is_own(symbol)]
    outside = {symbol.name for symbol in symbols}
    for variable in unit.variables:
        if variable in outside or _GENERATED.match(variable):
            continue
        plain = re.search(r"(\d+)([A-Za-z_]\w*?)E?$", variable) if variable.startswith("_Z") else None
        identifier = plain[2] if plain else variable
        if any(f"{len(identifier)}{identifier}" in name for name in local):
            raise Untranslated(f"variable {identifier}")


def _complete(unit: ptx.Unit, symbols: Iterable[Symbol]) -> None:
    """Raise Untranslated if a stub has no translated kernel."""
    bound = {host.pointer_symbol(entry.name) for entry in unit.entries}
    ending = f"E{len(host.POINTER)}{host.POINTER}"
    for symbol in symbols:
        if symbol.name.endswith(ending) and (symbol.name not in bound or _is_own(symbol)):
            raise Untranslated(f"kernel {symbol.name}")


def _is_own(symbol: Symbol) -> bool:
    """Return True for a variable that is local to the host unit."""
    return symbol.is_local and symbol.is_variable


def _defined(object_file: Path) -> list[Symbol]:
    try:
        found = list(elf.symbols(object_file.read_bytes()))
    except (OSError, elf.NotElf) as error:
        raise Untranslated(f"the symbols of the host unit cannot be read: {error}") from error
    return [symbol for symbol in found if symbol.is_defined]
