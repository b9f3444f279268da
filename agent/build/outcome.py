"""The result of a request for an extension, and its place in the cache."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from agent.build import compiler
from agent.records import Finding, KernelResources, Record

BACKEND = "emulator-slim"


class Built(Record):
    """Result of a request."""

    library: Path | None
    """The shared library to load; None if the build failed."""
    seconds: float
    backend: str = BACKEND
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    """Resources of each kernel according to NVIDIA's compiler; empty if it did not check them."""
    notes: tuple[str, ...] = ()
    """Checks that were skipped, with the reason."""
    program: str | None = None
    """See `program.of_request`; None if unknown."""
    findings: tuple[Finding, ...] = ()
    """Reasons why there is no library, headline first."""
    log: str = ""
    """The compiler's output, without this machine's paths."""
    unsupported: bool = False
    """True if the emulator cannot judge this code; another executor may."""


def kept(place: Path, wait_s: float, make: Callable[[Path], Built]) -> Built:
    """Return the library kept in `place`, or build it in a scratch directory; only one process builds it.

    Failures are not kept. Raises OSError if `place` cannot be written.
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
