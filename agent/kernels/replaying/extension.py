"""Build and load of the extension that replays calls: the only code of this package compiled against torch.

It is cached beside the kernels' libraries, keyed by content, compiler, torch and Python.
"""

import hashlib
import importlib.util
import platform
import sys
import sysconfig
import time
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from agent import config
from agent.build import toolchain
from agent.errors import EnvironmentFault
from agent.kernels import building, sources
from agent.kernels.built import Build, BuildFault, shipped
from agent.records import digest

NAME = "replaying"
CSRC = Path(__file__).resolve().parent / "csrc"
NO_CUDA = ""
"""CUDA version of the extension: empty, since it uses no symbol of CUDA and runs beside any version."""
FLAGS = (
    "-O2", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-w", "-DAT_PER_OPERATOR_HEADERS",
    "-DPYBIND11_SIMPLE_GIL_MANAGEMENT",
)  # fmt: skip
"""Flags of g++, the last two of which keep the build short.

AT_PER_OPERATOR_HEADERS makes torch's headers include only the operators that are used.
PYBIND11_SIMPLE_GIL_MANAGEMENT makes pybind11 take the GIL by Python's own functions, without its internal
registry of types."""


def load() -> ModuleType:
    """Return the extension, built if needed. Raises BuildFault."""
    import torch  # noqa: F401  # loads the libraries that the extension needs

    path = library()
    loader = ExtensionFileLoader(NAME, str(path))
    spec = importlib.util.spec_from_loader(NAME, loader)
    assert spec is not None
    try:
        made = importlib.util.module_from_spec(spec)
        loader.exec_module(made)
    except ImportError as error:
        raise BuildFault(f"{NAME}: its extension cannot be loaded: {error}") from error
    return made


def library() -> Path:
    """Return the path of the extension: a shipped one, or one built here if it is missing.

    Raises BuildFault, which names the remedy.
    """
    settings = config.kernel_settings()
    texts = [path.read_text(encoding="utf-8") for path in sorted(CSRC.iterdir())]
    target = f"torch-{building.torch_version()}-{sys.implementation.cache_tag}"
    content = digest(*texts, *FLAGS, target, platform.machine())
    if settings.kernels_built is not None:
        ready = shipped(settings.kernels_built, NAME, target, sources.ALL, NO_CUDA, content)
        if ready is not None:
            return ready
    try:
        compiler, compiler_version = toolchain.compiler_here()
    except EnvironmentFault as fault:
        raise BuildFault(f"{NAME}: {fault}") from None
    command = _command(compiler)

    def build(path: Path) -> Build:
        started = time.monotonic()
        building.compiled(NAME, [*command, "-o", str(path)])
        return Build(
            kernel=NAME,
            part=sources.ALL,
            arch=target,
            sources=content,
            cuda=NO_CUDA,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            compiler=f"g++ {compiler_version}",
            seconds=round(time.monotonic() - started, 1),
            kernels=(),
        )

    made = settings.cache_dir / "kernels" / f"{NAME}-{target}-{digest(content, compiler_version)[:20]}"
    return building.made_once(made, NAME, build, building.LOCK_LIMIT_S)


def _command(compiler: Path) -> list[str]:
    """Return the compiler's command, without the output file. Raises BuildFault."""
    python = Path(sysconfig.get_paths()["include"])
    if not (python / "Python.h").is_file():
        raise BuildFault(f"{NAME}: there is no {python / 'Python.h'}: install the headers of Python")
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildFault(f"{NAME}: torch is not installed")
    torch = Path(spec.origin).parent
    includes = (torch / "include", torch / "include/torch/csrc/api/include", python)
    return [
        str(compiler), *FLAGS, *(f"-I{path}" for path in includes), str(CSRC / "replaying.cpp"),
        f"-L{torch / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10",
    ]  # fmt: skip
