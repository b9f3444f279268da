"""What became of a request for an extension, and where it is kept."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from agent.build import compiler
from agent.records import Finding, KernelResources, Record

BACKEND = "emulator-slim"


class Built(Record):
    """What became of a request."""

    library: Path | None
    """The shared library to load; None where there is none."""
    seconds: float
    backend: str = BACKEND
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    """What NVIDIA's compiler says of each kernel; empty where it did not check them."""
    notes: tuple[str, ...] = ()
    """What was not checked, and why."""
    program: str | None = None
    """`program.of_request`; None where it is not known."""
    findings: tuple[Finding, ...] = ()
    """Why there is no library, headline first."""
    log: str = ""
    """The compiler's words, without this machine's paths."""
    unsupported: bool = False
    """The emulator cannot judge this code; another executor may."""


def kept(place: Path, wait_s: float, make: Callable[[Path], Built]) -> Built:
    """What lies in `place`, made in a scratch directory where there is no library yet; one process makes it.

    What failed is not kept. Raises OSError where `place` cannot be written.
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
