"""Whether a built extension could open other libraries while it runs.

What is asked of the dynamic linker shows in the library's own table of imports, however the source pasted
the name together, and whether or not the library that it would open is installed. It covers the C library's
functions for it; code that maps a file and links it by itself is not seen.
"""

from pathlib import Path

from agent.build import elf
from agent.build.outcome import Built
from agent.errors import defect
from agent.records import Finding

OPENING = frozenset({"dlopen", "dlmopen", "dlsym", "dlvsym", "__libc_dlopen_mode", "__libc_dlsym"})


def refused(built: Built) -> Built:
    """`built` without its library where that imports one of `OPENING`.

    Raises EnvironmentFault where the imports cannot be read.
    """
    if built.library is None:
        return built
    found = sorted(OPENING & set(imports(built.library)))
    if not found:
        return built
    message = (
        f"The compiled extension imports {' and '.join(f'`{name}`' for name in found)}: a library is called "
        "through its header or not at all; remove the call."
    )
    finding = Finding(kind="hidden-library-call", message=message)
    return built.model_copy(update={"library": None, "findings": (finding,)})


def imports(library: Path) -> list[str]:
    """The names that a shared library imports."""
    try:
        found = list(elf.symbols(library.read_bytes(), dynamic=True))
    except (OSError, elf.NotElf) as error:
        raise defect("the build", f"the imports of {library.name} cannot be read: {error}") from error
    return [symbol.name for symbol in found if not symbol.is_defined]
