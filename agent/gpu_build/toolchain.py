"""Toolchain of slim builds, prepared once per user: headers, a precompiled header and a library.

The prepared directory is named by a digest of all its inputs. It takes about ten seconds to make and 50 MB.
"""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

from agent.build import cuda_headers, nvcc
from agent.build.toolchain import (
    CPP,
    NVCC_INCLUDE,
    STANDARD,
    Progress,
    Toolchain,
    compiler_here,
    content_of,
    default_cache,
    make_once,
    run_steps,
)
from agent.errors import EnvironmentFault
from agent.records import digest

_SOURCES = Path(__file__).resolve().parent / "cpp"
STEPS = _SOURCES / "steps.sh"
"""Script that runs the steps of an nvcc command, in parallel if possible."""
_PRELUDE = '#include "kw/host.h"\n#include "kw/host_bind.h"\n'
_SLIM_TORCH = ("torch", "ATen", "c10", "pybind11", "kw")
# main.cpp is not optimised, as in torch's own build. Hidden and non-unique symbols keep two extensions in one
# process from sharing their variables.
_HOST = (STANDARD, "-O0", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wno-attributes")
_TOOLKIT = Path("/usr/local/cuda")


class Unavailable(Exception):
    """Exception raised on a machine where slim builds are not possible; the text says why."""


class GpuToolchain(Toolchain):
    """Toolchain for a real GPU. `host_object` is an object file that every extension links."""

    nvcc: nvcc.Nvcc
    cudart: Path
    """CUDA's runtime library to link with; at run time, torch has already loaded one of equal name."""

    @property
    def device_headers(self) -> Path:
        """Directory of the declared headers: names and layouts of the slim headers, with few definitions."""
        return self.directory / "device_include"

    @property
    def runtime(self) -> Path:
        return self.cudart

    @property
    def visible(self) -> tuple[Path, ...]:
        nvcc = self.nvcc.path.resolve().parents[1]
        return (self.directory, self.cuda_include, self.cudart.parent, nvcc, STEPS.parent)


def prepare(cache: Path | None = None, progress: Progress | None = None) -> GpuToolchain:
    """Return the toolchain, prepared if necessary; `progress` is called for each step of the preparation.

    Raises Unavailable if the machine lacks a requirement, and EnvironmentFault if the directory cannot be
    written.
    """
    compiler = nvcc.find()
    if compiler is None:
        raise Unavailable("there is no nvcc")
    try:
        gxx, gxx_version = compiler_here()
        include = cuda_headers.directory(None)
        cuda_version = cuda_headers.version(include)
    except EnvironmentFault as fault:
        raise Unavailable(str(fault)) from None
    if compiler.version.split(".")[0] != cuda_version.split(".")[0]:
        raise Unavailable(f"nvcc is {compiler.version} and CUDA's headers are of {cuda_version}")
    cudart = _cudart(include, cuda_version.split(".")[0])
    content = "\n".join(
        (
            content_of(CPP / "include"),
            content_of(CPP / "host"),
            content_of(NVCC_INCLUDE),
            content_of(_SOURCES),
        )
    )
    key = digest(gxx_version, compiler.version, str(include), *_HOST, _PRELUDE, content)[:24]
    made = GpuToolchain(
        gxx=gxx,
        gxx_version=gxx_version,
        cuda_include=include,
        cuda_version=cuda_version,
        directory=(cache or default_cache()) / "gpu" / key,
        host_flags=_HOST,
        device_flags=(),
        nvcc=compiler,
        cudart=cudart,
    )
    make_once(made.directory, lambda: _make(made, progress), progress)
    return made


def _make(made: GpuToolchain, progress: Progress | None) -> None:
    for part in _SLIM_TORCH:
        shutil.copytree(CPP / "include" / part, made.headers / part, ignore=_of_the_emulator)
    shutil.copytree(NVCC_INCLUDE, made.device_headers)
    shutil.copy(NVCC_INCLUDE / "kw" / "device_sixteen_bit.h", made.headers / "kw")
    shutil.copytree(_SOURCES / "include", made.headers, dirs_exist_ok=True)
    prelude = made.prelude("host")
    prelude.parent.mkdir()
    prelude.write_text(_PRELUDE)
    compiler = [str(made.gxx), *made.host_flags, *made.includes()]
    # The library emits all inline functions of the slim headers, because nvcc only sees their declarations.
    library = [
        "-O1",
        "-ffunction-sections",
        "-fkeep-inline-functions",
        f"-I{CPP}",
        "-c",
        str(_SOURCES / "library.cpp"),
    ]
    run_steps(
        [
            (
                "headers for fast builds",
                [[*compiler, "-x", "c++-header", str(prelude), "-o", f"{prelude}.gch"]],
            ),
            ("library for fast builds", [[*compiler, *library, "-o", str(made.host_object)]]),
        ],
        progress,
    )


def _of_the_emulator(directory: str, names: list[str]) -> list[str]:
    """Return the emulator's headers to leave out, since they replace CUDA, which is real here."""
    if Path(directory).name != "kw":
        return []
    return [name for name in names if not name.startswith("host")]


def _cudart(include: Path, major: str) -> Path:
    """Return CUDA's runtime library of the headers' installation, or another of equal major version."""
    for place in _library_places(include):
        found = place / f"libcudart.so.{major}"
        if found.is_file():
            return found
    raise Unavailable(f"there is no libcudart.so.{major}")


def _library_places(include: Path) -> Iterator[Path]:
    yield include.parent / "lib"
    yield include.parent / "lib64"
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(root).glob("cu[0-9]*/lib"), reverse=True)
    yield _TOOLKIT / "lib64"
