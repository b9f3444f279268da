"""Result of a build request, and its place in the cache."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from agent.build import compiler
from agent.records import Finding, KernelResources, Record

BACKEND = "emulator-slim"


class Built(Record):
    """Result of a build request: a library, or findings."""

    library: Path | None
    """Shared library to load, or None if the build failed."""
    seconds: float
    backend: str = BACKEND
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    """Resources of each kernel as ptxas reports them, empty if it did not run."""
    notes: tuple[str, ...] = ()
    """Checks that were skipped, each with the reason."""
    program: str | None = None
    """Identity of the program (`program.of_request`), or None if unknown."""
    findings: tuple[Finding, ...] = ()
    """Findings on a failed build, the headline first."""
    log: str = ""
    """Output of the compiler, without this machine's paths."""
    unsupported: bool = False
    """True if the emulator cannot judge the code, which a GPU may accept."""


def kept(place: Path, wait_s: float, make: Callable[[Path], Built]) -> Built:
    """Return the build cached in `place`, or make it in a scratch directory, one process at a time.

    Failed builds are not cached. Raises OSError if `place` cannot be written.
    """
    record = place / "built.json"
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "lock", timeout=wait_s):
        if record.is_file():
            built = Built.model_validate_json(record.read_text())
            if built.library is not None and built.library.is_file():
                return built
        with tempfile.TemporaryDirectory(dir=place, prefix="building-") as scratch:
            built = make(Path(scratch))
            if built.library is None:
                return built
            library = compiler.take(built.library, place / "extension.so")
        built = built.model_copy(update={"library": library})
        written = record.with_suffix(".new")
        written.write_text(built.model_dump_json())
        written.rename(record)
    return built
