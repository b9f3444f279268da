"""Finished libraries, and the record beside each: its sources, flags and target, and its hash.

Each library is shipped in a folder of its own. A shipped library is loaded if its sources, architecture and
CUDA version are those wanted. The hash detects a file that was damaged or replaced by mistake. Anyone who can
write to the folder can run any code, as with every library.
"""

import hashlib
import platform
import shutil
import tempfile
from pathlib import Path

from agent.errors import EnvironmentFault
from agent.kernels import sources
from agent.records import KernelResources, Record, digest

LIBRARY = "kernel.so"
REPORT = "build.json"
FLAGS = (
    "-O1", "-std=c++17", "--shared", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xptxas", "-v",
    "-allow-unsupported-compiler", "-cudart", "none",
)  # fmt: skip
"""Flags of nvcc. -O1 only affects host code, which chooses and launches: ptxas optimises as by default."""


class BuildFault(EnvironmentFault):
    """Error for a kernel that could not be built here; the text is one line with the remedy."""


class Build(Record):
    """Record that a finished build leaves beside its library."""

    kernel: str
    part: str
    """Dtype of the library, or ALL for every dtype of its kernel."""
    arch: str
    compiler: str
    sources: str
    """Digest of the sources, flags and target, without the compiler."""
    cuda: str
    """Major version of CUDA beside which the library runs."""
    sha256: str
    """Hash of the library."""
    seconds: float
    kernels: tuple[KernelResources, ...]
    warnings: tuple[str, ...] = ()


def report(library_path: Path) -> Build:
    """Return the record of the build of the library at this path."""
    return Build.model_validate_json((library_path.parent / REPORT).read_text(encoding="utf-8"))


def is_whole(folder: Path) -> bool:
    """Return True if the library in the folder has the hash that its build recorded."""
    try:
        return hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() == report(folder / LIBRARY).sha256
    except (OSError, ValueError):
        return False


def content(name: str, arch: str, part: str) -> str:
    """Return the digest of a library's sources, flags and target, independent of the compiler."""
    texts = [text for _, text in sorted(sources.device_code(name).items())]
    return digest(*texts, *FLAGS, arch, part, platform.machine())


def ship(library_path: Path, folder: Path) -> Path:
    """Copy a library into `folder`, for use through `AGENT_KERNELS_BUILT`, replacing an older one.

    Raises BuildFault if the folder cannot be written.
    """
    made = report(library_path)
    place = folder / _shipped_name(made.kernel, made.arch, made.part)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{made.kernel}-", dir=folder))
        try:
            shutil.copytree(library_path.parent, scratch, dirs_exist_ok=True)
            shutil.rmtree(place, ignore_errors=True)
            scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise BuildFault(f"{made.kernel}: cannot write it to {folder}: {error.strerror}") from error
    return place / LIBRARY


def shipped(
    folder: Path, name: str, arch: str, part: str, cuda: str, made_of: str | None = None
) -> Path | None:
    """Return the library that `ship` put in `folder`, or None if it has none for these sources and this CUDA.

    `made_of` is the digest to expect, by default that of the kernel's sources. Raises BuildFault for a file
    whose hash is not the recorded one.
    """
    place = folder / _shipped_name(name, arch, part)
    try:
        made = report(place / LIBRARY)
    except OSError:
        return None
    except ValueError as error:
        raise BuildFault(f"{place / REPORT} cannot be read: ship {name} there again") from error
    if (made.sources, made.cuda) != (made_of or content(name, arch, part), cuda.split(".")[0]):
        return None
    if not is_whole(place):
        raise BuildFault(f"{place / LIBRARY} is not the file that was built: ship {name} there again")
    return place / LIBRARY


def _shipped_name(name: str, arch: str, part: str) -> str:
    return f"{name}-{part}-{arch}-{platform.machine()}"
