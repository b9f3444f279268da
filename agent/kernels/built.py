"""A finished library and what stands beside it: what it was made of, and by which hash it is known.

Libraries are shipped as folders, one each, and are loaded from there where their sources, architecture and
CUDA are those of whoever asks. A hash finds a file that was damaged or exchanged by mistake; who can write to
the folder can run what he likes, as with any library.
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
"""-O1 is for the host's code alone, which chooses and launches: ptxas optimises as it does by default."""


class BuildFault(EnvironmentFault):
    """A kernel could not be built here; the text is one line with the mend."""


class Build(Record):
    """What a finished build left beside its library."""

    kernel: str
    part: str
    """The dtype that it is for, or all of its kernel's."""
    arch: str
    compiler: str
    sources: str
    """Digest of what it was made of, the compiler aside."""
    cuda: str
    """Major version of the CUDA that it runs beside."""
    sha256: str
    """Of the library."""
    seconds: float
    kernels: tuple[KernelResources, ...]
    warnings: tuple[str, ...] = ()


def report(library_path: Path) -> Build:
    """What the compiler said when that library was built."""
    return Build.model_validate_json((library_path.parent / REPORT).read_text(encoding="utf-8"))


def is_whole(folder: Path) -> bool:
    """Whether the library in it is what its build left."""
    try:
        return hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() == report(folder / LIBRARY).sha256
    except (OSError, ValueError):
        return False


def content(name: str, arch: str, part: str) -> str:
    """Digest of what a library is made of, wherever it is compiled."""
    texts = [text for _, text in sorted(sources.device_code(name).items())]
    return digest(*texts, *FLAGS, arch, part, platform.machine())


def ship(library_path: Path, folder: Path) -> Path:
    """Copies a library into `folder`, where `AGENT_KERNELS_BUILT` has others look; it replaces an older one.

    Raises BuildFault where that cannot be written.
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
    """A library that `ship` put there, where it is of these sources and for this CUDA; None: there is none.

    `made_of` is the digest of what it is made of; None: of the kernel's sources.

    Raises BuildFault for a file that is not the one that was built.
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
