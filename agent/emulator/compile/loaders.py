"""Whether a built extension could open libraries or start processes, or reaches for what is the emulator's.

What is asked of the dynamic linker shows in the library's own table of imports, however the source pasted
the name together, and whether or not the library that it would open is installed. It covers the C library's
functions for it; code that maps a file and links it by itself is not seen. The same table tells who calls a
switch of the emulator's runtime, and the table of all symbols who defines what the runtime has to define: the
calls that the compiler puts before each access.
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
"""Functions that start and end processes: the screen reads calls of them, and here their addresses show."""
OF_HOST_CODE = frozenset(
    {
        "kw_alloc", "kw_free", "kw_launch", "kw_register", "kw_unregister", "kw_on_device",
        "kw_current_stream", "kw_set_current_stream", "kw_fail", "kw_set_function_attribute",
        "kw_sides_unknown",
    }
)  # fmt: skip
"""Functions of the runtime that the headers for host code call; the others are the judge's."""
ANNOUNCING = ("__tsan_", "__ubsan_", "__wrap_mem")
"""How the calls begin that tell the runtime of an access."""


def refused(built: Built) -> Built:
    """`built` without its library where that imports one of `OPENING` or `OF_PROCESSES`, or reaches for the
    emulator.

    Raises EnvironmentFault where the symbols cannot be read.
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
    """The names of everything that a shared library holds, whether others can see it or not."""
    return {symbol.name for symbol in _symbols(library, dynamic=False) if symbol.is_defined}


def imports(library: Path) -> list[str]:
    """The names that a shared library imports."""
    return [symbol.name for symbol in _symbols(library, dynamic=True) if not symbol.is_defined]


def _symbols(library: Path, *, dynamic: bool) -> list[elf.Symbol]:
    try:
        return list(elf.symbols(library.read_bytes(), dynamic=dynamic))
    except (OSError, elf.NotElf) as error:
        raise defect("the build", f"the imports of {library.name} cannot be read: {error}") from error
