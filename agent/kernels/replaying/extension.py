"""Builds and loads the extension that replays calls: the one part that is compiled against torch.

It is kept beside the kernels' libraries, by content, compiler, torch and Python.
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
"""It names no symbol of CUDA, and runs beside any."""
FLAGS = (
    "-O2", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-w", "-DAT_PER_OPERATOR_HEADERS",
    "-DPYBIND11_SIMPLE_GIL_MANAGEMENT",
)  # fmt: skip
"""The last two keep its build short: torch's headers read those of the operators that are named, and not of
all; and the GIL is taken by Python's own functions, without pybind11's register of types behind them."""


def load() -> ModuleType:
    """The extension, built where need be. Raises BuildFault."""
    import torch  # noqa: F401  # whose libraries it finds loaded

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
    """Path of the extension: the one that was shipped, or else one that is built where it is not there yet.

    Raises BuildFault, which says what to do.
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
    """All but where the result goes. Raises BuildFault."""
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
