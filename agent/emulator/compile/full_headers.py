"""Torch's own headers for host code that needs more than the slim ones have; prepared on first need.

The prepared directory holds one precompiled header, the emulator's headers without their slim torch, and
the object that makes CPU tensors look like CUDA ones (cpp/full/bridge.cpp). It belongs to one torch, one
Python, one g++ and these headers, and takes about a minute and 800 MB.
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
"""Of the emulator's headers: slim torch, which would stand before torch's own, and what only PTX needs."""
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")


class Unavailable(Exception):
    """There are no full headers on this machine; the text says why and how to mend it."""


class FullToolchain(Toolchain):
    """As the slim one, whose runtime it shares; its host code and device code have the same prelude."""

    torch: Path
    """The directory of the torch package."""
    python_include: Path
    shared_runtime: Path

    @property
    def runtime(self) -> Path:
        return self.shared_runtime

    @property
    def bridge(self) -> Path:
        """The object that every extension links."""
        return self.directory / "bridge.o"

    def prelude(self, unit: str) -> Path:
        return self.directory / "prelude.h"

    def unit_flags(self, unit: str) -> tuple[str, ...]:
        """All of a `host` or `device` unit, the preludes among them; the precompiled one has to be first."""
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
        """Torch's own: where an extension runs they are loaded already, and are found by their names."""
        return (f"-L{self.torch / 'lib'}", *(f"-l{name}" for name in _LIBRARIES))


def prepare(toolchain: Toolchain, progress: Progress | None = None) -> FullToolchain:
    """The toolchain with full headers, made where it is not there yet; `progress` as for the slim one.

    Raises Unavailable where the machine lacks something for it, and EnvironmentFault where the
    directory cannot be written.
    """
    torch, python_include = _torch(), Path(sysconfig.get_path("include")).resolve()
    if not (python_include / "Python.h").is_file():
        raise Unavailable("Python's own headers are missing (apt-get install python3-dev)")
    device = (*toolchain.device_flags, f"-DTORCH_EXTENSION_NAME={EXTENSION_MODULE}")
    host = tuple(flag for flag in device if flag != _DEVICE_MACRO)
    version = importlib.metadata.version("torch")
    # Not the toolchain's own key, which changes with the runtime: nothing here is made from that.
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
        run_steps(steps, progress, at_once=1)  # the second reads what the first makes
    except EnvironmentFault as fault:
        raise Unavailable(str(fault)) from None


def _kept() -> list[Path]:
    """The emulator's headers that stand beside torch's own, as paths below its include directory."""
    left_out = {path for pattern in _LEFT_OUT for path in _HEADERS.glob(pattern)}
    files = sorted(path for path in _HEADERS.rglob("*") if path.is_file())
    return [path.relative_to(_HEADERS) for path in files if not left_out & {path, *path.parents}]


def _torch() -> Path:
    spec = importlib.util.find_spec("torch")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "include/torch/csrc/api/include/torch/all.h").is_file():
            return Path(place).resolve()
    raise Unavailable("the installed torch has no C++ headers")
