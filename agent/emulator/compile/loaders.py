"""Rejection of built extensions that open libraries, start processes or touch the emulator's own symbols.

The import table of a library lists the functions that it asks of the dynamic linker. The source cannot hide
an import from the table, and the library to open need not be installed. Only functions of the C library are
covered; code that maps and links a file by itself is not detected. The import table also shows calls of the
runtime's switches. The full symbol table shows definitions that would replace the runtime's functions, such
as those that the compiler calls before each access.
"""

from pathlib import Path

from agent.build import elf
from agent.build.outcome import Built
from agent.errors import defect
from agent.records import Finding
from agent.torch_shim import c_abi
from agent.torch_shim.finding_kinds import FindingKind

OPENING = frozenset({"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym"})
OF_PROCESSES = frozenset(
    {
        "system", "popen", "fork", "vfork", "_Fork", "execl", "execle", "execlp", "execv", "execve", "execvp",
        "execvpe", "fexecve", "posix_spawn", "posix_spawnp", "ptrace", "_exit", "_Exit", "quick_exit",
        "clone", "__clone", "syscall",
    }
)  # fmt: skip
"""Functions that start or end processes. The source screen finds their calls; the import table also shows
code that takes their address."""
OF_HOST_CODE = frozenset(
    {
        "kw_alloc", "kw_free", "kw_launch", "kw_register", "kw_unregister", "kw_on_device",
        "kw_current_stream", "kw_set_current_stream", "kw_fail", "kw_set_function_attribute",
        "kw_sides_unknown",
    }
)  # fmt: skip
"""Runtime functions that the headers for host code call; all other runtime functions are for the judge."""
ANNOUNCING = ("__tsan_", "__ubsan_", "__wrap_mem")
"""Prefixes of the functions that notify the runtime of a memory access."""


def refused(built: Built) -> Built:
    """Return `built`, without its library and with a finding if the library uses forbidden functions.

    Forbidden are `OPENING`, `OF_PROCESSES` and functions of the emulator. Raise EnvironmentFault if the
    symbols cannot be read.
    """
    if built.library is None:
        return built
    imported = set(imports(built.library))
    found = sorted(OPENING & imported)
    if found:
        message = (
            f"The compiled extension imports {_named(found)}: a library is called through its header or not "
            "at all; remove the call."
        )
        return _without_library(built, Finding(kind="hidden-library-call", message=message))
    found = sorted(OF_PROCESSES & imported)
    if found:
        message = f"The compiled extension imports {_named(found)}: a candidate starts and ends no process."
        return _without_library(built, Finding(kind="process-control", message=message))
    reached = sorted((c_abi.RUNTIME.keys() - OF_HOST_CODE) & imported)
    reached += sorted(name for name in definitions(built.library) if _is_the_emulators(name))
    if not reached:
        return built
    message = (
        f"The compiled extension calls or defines {_named(reached)}, which is the emulator's: it belongs to "
        "no CUDA program; remove it."
    )
    return _without_library(built, Finding(kind=FindingKind.EMULATOR_TAMPERED, message=message))


def _is_the_emulators(name: str) -> bool:
    return name in c_abi.RUNTIME or name.startswith(ANNOUNCING)


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names[:4])


def _without_library(built: Built, finding: Finding) -> Built:
    return built.model_copy(update={"library": None, "findings": (finding,)})


def definitions(library: Path) -> set[str]:
    """Return the names of all symbols that a shared library defines, including local ones."""
    return {symbol.name for symbol in _symbols(library, dynamic=False) if symbol.is_defined}


def imports(library: Path) -> list[str]:
    """Return the names that a shared library imports."""
    return [symbol.name for symbol in _symbols(library, dynamic=True) if not symbol.is_defined]


def _symbols(library: Path, *, dynamic: bool) -> list[elf.Symbol]:
    try:
        return list(elf.symbols(library.read_bytes(), dynamic=dynamic))
    except (OSError, elf.NotElf) as error:
        raise defect("the build", f"the imports of {library.name} cannot be read: {error}") from error
