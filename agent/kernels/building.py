"""Build of a kernel's C libraries for one architecture, into a cache keyed by content.

`library(name, arch, part)` returns the path of a finished library: one that was shipped for exactly these
sources (`built`), or one built here. A build happens at most once for its sources, flags, compiler, torch and
architecture. It goes into a folder of its own, which is renamed once complete. The hash of either library is
checked against the hash that its build recorded. A caller waits at most LOCK_LIMIT_S for another process's
build, and the error names that process. The lock belongs to the operating system, so that a dead process
releases it. Raises BuildFault with a remedy. No library is loaded here, and neither torch nor CUDA is
started.
"""

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from filelock import FileLock, Timeout

from agent import config
from agent.build import cuda_headers, nvcc, toolchain
from agent.build.nvcc import messages
from agent.build.nvcc.tool import wheel_homes
from agent.errors import EnvironmentFault
from agent.kernels import sources
from agent.kernels.built import FLAGS, LIBRARY, REPORT, Build, BuildFault, content, is_whole, shipped
from agent.records import Record, digest

LOCK_LIMIT_S = 300.0
BUILD_LIMIT_S = 600.0
SPLIT = ("group_norm", "matmul_fp32x3")
"""Kernels with the longest builds, for which nvcc compiles the functions in parallel."""
SPLIT_SINCE = 13
"""Minimum major version of nvcc for compiling functions in parallel, of the versions tried."""


def library(
    name: str,
    arch: str,
    part: str = sources.ALL,
    cuda: str | None = None,
    lock_limit_s: float = LOCK_LIMIT_S,
) -> Path:
    """Return the path of one library of kernel `name` for `arch` (`90a`), built if it is missing.

    `part` is one of `sources.parts(name)`. `cuda` is the CUDA version of torch, if the library has to run
    beside torch.
    """
    settings = config.kernel_settings()
    if cuda is not None and settings.kernels_built is not None:
        ready = shipped(settings.kernels_built, name, arch, part, cuda)
        if ready is not None:
            return ready
    tools = _Tools.here()
    if cuda is not None and cuda.split(".")[0] != tools.version.split(".")[0]:
        raise BuildFault(
            f"nvcc is {tools.version} and torch was built for CUDA {cuda}: put an nvcc {cuda.split('.')[0]} "
            "on PATH, or name its toolkit in CUDA_HOME"
        )
    made = settings.cache_dir / "kernels" / f"{name}-{part}-{arch}-{_key(name, arch, part, tools)}"
    return made_once(made, name, lambda path: _build(name, arch, part, tools, path), lock_limit_s)


def made_once(made: Path, name: str, build: Callable[[Path], Build], lock_limit_s: float) -> Path:
    """Return the path of the library in folder `made`; `build` writes it if it is missing.

    Raises BuildFault.
    """
    if is_whole(made):
        return made / LIBRARY
    try:
        made.parent.mkdir(parents=True, exist_ok=True)
        with _locked(made.with_suffix(".lock"), name, lock_limit_s):
            if not is_whole(made):
                shutil.rmtree(made, ignore_errors=True)
                _write(made, name, build)
    except OSError as error:
        raise BuildFault(
            f"{name}: cannot write its build to {made.parent}: {error.strerror}; set AGENT_CACHE_DIR to a "
            "folder that can be written"
        ) from error
    return made / LIBRARY


def architecture(capability: tuple[int, int]) -> str:
    """Return nvcc's name of a compute capability: `90a` for (9, 0), otherwise the plain number.

    Instructions that only Hopper has, such as wgmma, exist for the target `90a` only.
    """
    number = f"{capability[0]}{capability[1]}"
    return "90a" if number == "90" else number


class _Tools(Record):
    """Compiler, and CUDA's runtime library to link against."""

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
    """Return the path of CUDA's runtime library. The running torch has loaded a library of this name."""
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


def _key(name: str, arch: str, part: str, tools: _Tools) -> str:
    compiler = (tools.version, tools.host_version, str(tools.cudart))
    return digest(content(name, arch, part), *compiler, torch_version())[:20]


def torch_version() -> str:
    """Return the version of torch, or `none`.

    A library uses no symbol of torch, but shares CUDA's runtime with it.
    """
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


@contextlib.contextmanager
def _locked(path: Path, name: str, limit_s: float) -> Iterator[None]:
    """Hold the lock on `path`. Raises BuildFault that names the holder, from a note beside the lock file."""
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


def _write(made: Path, name: str, build: Callable[[Path], Build]) -> None:
    """Build in a folder beside `made`, and rename it once it is complete."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=made.parent))
    try:
        done = build(scratch / LIBRARY)
        (scratch / REPORT).write_text(done.model_dump_json(indent=1), encoding="utf-8")
        scratch.chmod(0o755)
        scratch.rename(made)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _build(name: str, arch: str, part: str, tools: _Tools, path: Path) -> Build:
    started = time.monotonic()
    log = compiled(name, _command(name, arch, part, tools, path))
    return Build(
        kernel=name,
        part=part,
        arch=arch,
        sources=content(name, arch, part),
        cuda=tools.version.split(".")[0],
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        compiler=f"nvcc {tools.version}, g++ {tools.host_version}",
        seconds=round(time.monotonic() - started, 1),
        kernels=messages.kernels(log),
        warnings=tuple(m.text for m in messages.parse(log) if m.severity == "warning"),
    )


def _command(name: str, arch: str, part: str, tools: _Tools, made: Path) -> list[str]:
    chosen = [] if arch == "90a" else ["-DKW_PORTABLE_ONLY"]
    if name in SPLIT and int(tools.version.split(".")[0]) >= SPLIT_SINCE:
        chosen += ["--split-compile", "4"]
    if part != sources.ALL:
        chosen.append(f"-DKW_DTYPES={1 << sources.DTYPES.index(part)}")
    return [
        str(tools.nvcc), *FLAGS, *chosen, f"-gencode=arch=compute_{arch},code=sm_{arch}",
        "-ccbin", str(tools.host), str(sources.ROOT / name / sources.LIBRARY), "-o", str(made),
        "-Xlinker", str(tools.cudart),
    ]  # fmt: skip


def compiled(name: str, words: list[str]) -> str:
    """Return the compiler's output. Raises BuildFault with its first error and the command."""
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
