"""Torch's own headers, for host code that the slim headers do not cover; prepared at first use.

The prepared directory holds one precompiled header and the emulator's headers without the slim torch. It
also holds the object that makes CPU tensors look like CUDA tensors (cpp/full/bridge.cpp). The directory is
specific to one torch, Python, g++ and set of headers. Preparing it takes about a minute and 800 MB.
"""

import importlib.metadata
import importlib.util
import shutil
import sysconfig
from pathlib import Path

from agent.build.toolchain import CPP, Progress, Toolchain, content_of, make_once, run_steps
from agent.errors import EnvironmentFault
from agent.records import digest
from agent.torch_shim.c_abi import EXTENSION_MODULE

_DEVICE_MACRO = "-DKW_DEVICE_UNIT=1"
_SOURCES = CPP / "full"
_HEADERS = CPP / "include"
_LEFT_OUT = ("torch", "ATen", "c10", "pybind11", "kw/host*", "kw/ptx*", "kw/matrix_sum.h")
"""Emulator headers to leave out: slim torch headers, which would shadow torch's own, and PTX headers."""
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")


class Unavailable(Exception):
    """Torch's own headers cannot be used on this machine; the message gives the reason and the remedy."""


class FullToolchain(Toolchain):
    """Toolchain with torch's own headers and the slim toolchain's runtime; all units share one prelude."""

    torch: Path
    """Directory of the torch package."""
    python_include: Path
    shared_runtime: Path

    @property
    def runtime(self) -> Path:
        return self.shared_runtime

    @property
    def bridge(self) -> Path:
        """Return the object file (cpp/full/bridge.cpp) that every extension links."""
        return self.directory / "bridge.o"

    def prelude(self, unit: str) -> Path:
        return self.directory / "prelude.h"

    def unit_flags(self, unit: str) -> tuple[str, ...]:
        """Return all flags of a `host` or `device` unit; the precompiled prelude has to come first."""
        prelude = ("-include", str(self.prelude(unit)))
        if unit == "host":
            return (*self.host_flags, *prelude)
        return (*self.device_flags, *prelude, "-include", "kw/device.h")

    @property
    def visible(self) -> tuple[Path, ...]:
        torch = (self.torch / "include", self.torch / "lib")
        return (*super().visible, *torch, self.python_include, self.shared_runtime.parent)

    def includes(self) -> tuple[str, ...]:
        torch = self.torch / "include"
        places = (
            self.headers,
            torch,
            torch / "torch/csrc/api/include",
            self.python_include,
            self.cuda_include,
        )
        return tuple(word for place in places for word in ("-isystem", str(place)))

    def libraries(self) -> tuple[str, ...]:
        """Return linker flags for torch's libraries, which are already loaded when an extension runs."""
        return (f"-L{self.torch / 'lib'}", *(f"-l{name}" for name in _LIBRARIES))


def prepare(toolchain: Toolchain, progress: Progress | None = None) -> FullToolchain:
    """Return the toolchain with torch's own headers, and prepare it if needed.

    `progress` reports the steps, as in `toolchain.prepare`.
    Raise Unavailable if the machine lacks a requirement, and EnvironmentFault if the directory cannot be
    written.
    """
    torch, python_include = _torch(), Path(sysconfig.get_path("include")).resolve()
    if not (python_include / "Python.h").is_file():
        raise Unavailable("Python's own headers are missing (apt-get install python3-dev)")
    device = (*toolchain.device_flags, f"-DTORCH_EXTENSION_NAME={EXTENSION_MODULE}")
    host = tuple(flag for flag in device if flag != _DEVICE_MACRO)
    version = importlib.metadata.version("torch")
    # The slim toolchain's key is not used, because it also changes with the runtime's sources.
    kept = [f"{path}:{digest((_HEADERS / path).read_text(encoding='utf-8'))}" for path in _kept()]
    made_from = (*kept, content_of(_SOURCES), toolchain.gxx_version, toolchain.cuda_version)
    key = digest(*made_from, version, str(torch), str(python_include), *device)[:24]
    full = FullToolchain(
        **toolchain.model_dump(exclude={"directory", "host_flags", "device_flags"}),
        directory=toolchain.directory.parent / f"{key}-torch",
        host_flags=host,
        device_flags=device,
        torch=torch,
        python_include=python_include,
        shared_runtime=toolchain.runtime,
    )
    make_once(full.directory, lambda: _make(full, progress))
    return full


def _make(full: FullToolchain, progress: Progress | None) -> None:
    for path in _kept():
        (full.headers / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_HEADERS / path, full.headers / path)
    shutil.copytree(_SOURCES / "include", full.headers, dirs_exist_ok=True)
    prelude = str(full.prelude("host"))
    shutil.copy(_SOURCES / "prelude.h", prelude)
    compiler = [str(full.gxx), *full.host_flags, *full.includes()]
    bridge = ["-include", prelude, "-c", str(_SOURCES / "bridge.cpp"), "-o", str(full.bridge)]
    steps = [
        ("torch's own headers", [[*compiler, "-x", "c++-header", prelude, "-o", f"{prelude}.gch"]]),
        ("bridge to torch", [[*compiler, *bridge]]),
    ]
    try:
        run_steps(steps, progress, at_once=1)  # the second step reads the output of the first
    except EnvironmentFault as fault:
        raise Unavailable(str(fault)) from None


def _kept() -> list[Path]:
    """Return the paths of the emulator's headers to use with torch's own, relative to cpp/include."""
    left_out = {path for pattern in _LEFT_OUT for path in _HEADERS.glob(pattern)}
    files = sorted(path for path in _HEADERS.rglob("*") if path.is_file())
    return [path.relative_to(_HEADERS) for path in files if not left_out & {path, *path.parents}]


def _torch() -> Path:
    spec = importlib.util.find_spec("torch")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "include/torch/csrc/api/include/torch/all.h").is_file():
            return Path(place).resolve()
    raise Unavailable("the installed torch has no C++ headers")
