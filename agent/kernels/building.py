"""Builds a kernel's C library for one architecture into a cache keyed by content.

Contract: `library(name, arch)` answers the path of a finished library. It is built at most once for its
sources, flags, compiler, torch and architecture, in a folder of its own that is renamed when it is complete.
Who waits for another process's build waits `LOCK_LIMIT_S` at most and is told who holds the lock; the lock is
the system's, so that of a process that died is free. Raises BuildFault, which says what to do.
Nothing is loaded here, and neither torch nor CUDA is started.
"""

import contextlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock, Timeout

from agent import config
from agent.build import cuda_headers, nvcc, toolchain
from agent.build.nvcc import messages
from agent.build.nvcc.tool import wheel_homes
from agent.errors import EnvironmentFault
from agent.kernels import sources
from agent.records import KernelResources, Record, digest

LOCK_LIMIT_S = 300.0
BUILD_LIMIT_S = 600.0
LIBRARY = "kernel.so"
REPORT = "build.json"
FLAGS = (
    "-O3", "-std=c++17", "--shared", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xptxas", "-v",
    "-allow-unsupported-compiler", "-cudart", "none",
)  # fmt: skip


class BuildFault(EnvironmentFault):
    """A kernel could not be built here; the text is one line with the mend."""


class Build(Record):
    """What a finished build left beside its library."""

    kernel: str
    arch: str
    compiler: str
    seconds: float
    kernels: tuple[KernelResources, ...]
    warnings: tuple[str, ...] = ()


def library(name: str, arch: str, cuda: str | None = None, lock_limit_s: float = LOCK_LIMIT_S) -> Path:
    """Path of the library of kernel `name` for `arch` (`90a`), built where it is not there yet.

    `cuda` is the version that torch was built for, where it has to run beside that.
    """
    tools = _Tools.here()
    if cuda is not None and cuda.split(".")[0] != tools.version.split(".")[0]:
        raise BuildFault(
            f"nvcc is {tools.version} and torch was built for CUDA {cuda}: put an nvcc {cuda.split('.')[0]} "
            "on PATH, or name its toolkit in CUDA_HOME"
        )
    folder = config.kernel_settings().cache_dir / "kernels"
    made = folder / f"{name}-{arch}-{_key(name, arch, tools)}"
    if (made / LIBRARY).is_file():
        return made / LIBRARY
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with _locked(made.with_suffix(".lock"), name, lock_limit_s):
            if not (made / LIBRARY).is_file():
                _build(name, arch, tools, made)
    except OSError as error:
        raise BuildFault(
            f"{name}: cannot write its build to {folder}: {error.strerror}; set AGENT_CACHE_DIR to a folder "
            "that can be written"
        ) from error
    return made / LIBRARY


def report(library_path: Path) -> Build:
    """What the compiler said when that library was built."""
    return Build.model_validate_json((library_path.parent / REPORT).read_text(encoding="utf-8"))


def architecture(capability: tuple[int, int]) -> str:
    """`90a` for (9, 0), whose own instructions exist for that target only; elsewhere the plain number."""
    number = f"{capability[0]}{capability[1]}"
    return "90a" if number == "90" else number


class _Tools(Record):
    """The compiler and the runtime library that the result is linked to."""

    nvcc: Path
    version: str
    host: Path
    host_version: str
    cudart: Path

    @classmethod
    def here(cls) -> "_Tools":
        found = nvcc.find()
        if found is None:
            raise BuildFault(
                "there is no nvcc on PATH or under CUDA_HOME: install the CUDA toolkit, or pip install "
                "'kernelwright[nvcc]'"
            )
        try:
            host, host_version = toolchain.compiler_here()
        except EnvironmentFault as fault:
            raise BuildFault(str(fault)) from None
        return cls(
            nvcc=found.path, version=found.version, host=host, host_version=host_version,
            cudart=_cudart(found.version.split(".")[0]),
        )  # fmt: skip


def _cudart(major: str) -> Path:
    """CUDA's runtime library; torch has loaded one of this name where the result runs."""
    places = [home / "lib" for home in wheel_homes()]
    with contextlib.suppress(EnvironmentFault):
        include = cuda_headers.directory(None)
        places += [include.parent / "lib", include.parent / "lib64"]
    places.append(Path("/usr/local/cuda/lib64"))
    for place in places:
        if (place / f"libcudart.so.{major}").is_file():
            return place / f"libcudart.so.{major}"
    raise BuildFault(
        f"there is no libcudart.so.{major}, which nvcc {major} needs: install torch for CUDA {major}, or "
        "pip install nvidia-cuda-runtime"
    )


def _key(name: str, arch: str, tools: _Tools) -> str:
    texts = [text for _, text in sorted(sources.device_code(name).items())]
    return digest(
        *texts,
        *FLAGS,
        arch,
        tools.version,
        tools.host_version,
        str(tools.cudart),
        _torch(),
        platform.machine(),
    )[:20]


def _torch() -> str:
    """Its version; the library names no symbol of it, but shares CUDA's runtime with it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


@contextlib.contextmanager
def _locked(path: Path, name: str, limit_s: float) -> Iterator[None]:
    """Raises BuildFault with who holds the lock; the note beside it only says so: the lock is a file lock."""
    holder = path.with_suffix(".holder")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=limit_s)
    except Timeout:
        raise BuildFault(
            f"{name}: another process has been building it for over {limit_s:.0f} s ({_said(holder)}); end "
            f"it, or wait and try again (lock {path})"
        ) from None
    try:
        holder.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _said(holder: Path) -> str:
    try:
        return holder.read_text(encoding="utf-8") or "it has not said who it is"
    except OSError:
        return "it has not said who it is"


def _build(name: str, arch: str, tools: _Tools, made: Path) -> None:
    """Builds in a folder beside `made` and renames it when it is whole."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=made.parent))
    started = time.monotonic()
    try:
        log = _compiled(name, _command(name, arch, tools, scratch / LIBRARY))
        done = Build(
            kernel=name,
            arch=arch,
            compiler=f"nvcc {tools.version}, g++ {tools.host_version}",
            seconds=round(time.monotonic() - started, 1),
            kernels=messages.kernels(log),
            warnings=tuple(m.text for m in messages.parse(log) if m.severity == "warning"),
        )
        (scratch / REPORT).write_text(done.model_dump_json(indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        scratch.rename(made)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _command(name: str, arch: str, tools: _Tools, made: Path) -> list[str]:
    portable = [] if arch == "90a" else ["-DKW_PORTABLE_ONLY"]
    return [
        str(tools.nvcc), *FLAGS, *portable, f"-gencode=arch=compute_{arch},code=sm_{arch}",
        "-ccbin", str(tools.host), str(sources.ROOT / name / sources.LIBRARY), "-o", str(made),
        "-Xlinker", str(tools.cudart),
    ]  # fmt: skip


def _compiled(name: str, words: list[str]) -> str:
    """What the compiler wrote. Raises BuildFault with its first error and the command."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=BUILD_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise BuildFault(f"{name}: its build took longer than {BUILD_LIMIT_S:.0f} s and was ended") from None
    log = done.stdout + done.stderr
    if done.returncode:
        raise BuildFault(
            f"{name}: its build failed: {_first_error(log)}; to see all of it: {shlex.join(words)}"
        )
    return log


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|fatal|undefined reference|cannot find)\b", line)]
    return (errors or lines or ["the compiler said nothing"])[0][:300]
