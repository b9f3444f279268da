"""Find nvcc: on PATH, in CUDA_HOME, in /usr/local/cuda, or in NVIDIA's wheels (the extra `nvcc`)."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent import config
from agent.records import Record

MISSING = "no nvcc here: device code was not checked by NVIDIA's compiler, nor its registers"
TOOLKIT = Path("/usr/local/cuda")
_SECONDS = 20


class Nvcc(Record):
    """Path and version of an nvcc."""

    path: Path
    version: str


def find() -> Nvcc | None:
    """Return the first nvcc that runs, or None."""
    environment = config.child_environment()
    return _first_in(environment.get("PATH", ""), environment.get("CUDA_HOME"))


@cache
def _first_in(path: str, cuda_home: str | None) -> Nvcc | None:
    for place in _places(path, cuda_home):
        version = _version(place)
        if version is not None:
            return Nvcc(path=place, version=version)
    return None


def _places(path: str, cuda_home: str | None) -> Iterator[Path]:
    on_path = shutil.which("nvcc", path=path)
    if on_path is not None:
        yield Path(on_path)
    homes = [Path(cuda_home)] if cuda_home else []
    for home in [*homes, TOOLKIT, *wheel_homes()]:
        if (home / "bin" / "nvcc").is_file():
            yield home / "bin" / "nvcc"


def wheel_homes() -> Iterator[Path]:
    """Yield the directories of NVIDIA's wheels, newest first, each with the layout of a CUDA toolkit."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(root).glob("cu[0-9]*"), reverse=True)


def _version(nvcc: Path) -> str | None:
    try:
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\bV(\d[\d.]*)", answer.stdout)
    return found[1] if answer.returncode == 0 and found else None
