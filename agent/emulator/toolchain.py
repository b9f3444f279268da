"""Finds the compiler and CUDA's headers, and prepares what every build shares, once per user.

The prepared directory holds the runtime library and one precompiled header for host code and one for
device code. Its name is a digest of everything it was made from, so a changed header, flag or compiler
makes a new one; a damaged one is made again. It needs no CUDA toolkit and no GPU.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from agent.emulator import cuda_headers, torch_memory
from agent.errors import EnvironmentFault
from agent.records import Record, digest

Progress = Callable[[str, int, int], None]

CPP = Path(__file__).resolve().parent / "cpp"
NVCC_INCLUDE = Path(__file__).resolve().parent / "nvcc" / "include"
RUNTIME_NAME = "libkw_runtime.so"
STANDARD = "-std=c++20"
_LAYOUT = "3"  # of a prepared directory: another layout needs another name
_LOCK_SECONDS = 900
_STEP_SECONDS = 600
_LOADED = (".so", ".o")  # damage to these would not be seen before they run

# torch's own definitions for device code: half arithmetic goes through functions, not operators.
_TORCH_DEFINES = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
# Hidden symbols and no unique ones: two extensions in one process must not share their variables.
_COMMON = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wno-attributes", "-Wno-unknown-pragmas")
# The compiler announces every access to the runtime (cpp/runtime/access.cpp), which checks it when asked to;
# no sanitizer library is linked. -g1 gives findings their lines.
CHECKS = (
    "-fsanitize=thread,bounds,alignment",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-g1",
    "-gz=none",
    "-fno-plt",
)
# An integer that overflows wraps around, as on a GPU.
_WRAP = "-fwrapv"
# Copies by the C library are announced too: the runtime stands in front of them.
LINK_CHECKS = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"
_PRELUDES = {
    "host": '#include "kw/host.h"\n#include "kw/host_bind.h"\n',
    "device": '#include "kw/host.h"\n#include <cuda.h>\n#include <cuda_runtime.h>\n#include "kw/device.h"\n',
}


class Toolchain(Record):
    """Everything a build needs; valid as long as its directory is."""

    gxx: Path
    gxx_version: str
    cuda_include: Path
    cuda_version: str
    directory: Path
    host_flags: tuple[str, ...]
    device_flags: tuple[str, ...]

    @property
    def runtime(self) -> Path:
        """The runtime library, which the guest loads and every extension links."""
        return self.directory / RUNTIME_NAME

    @property
    def host_object(self) -> Path:
        """What host code against the slim headers links: the operators of torch, and the entry points."""
        return self.directory / "host.o"

    @property
    def headers(self) -> Path:
        """The emulator's own headers. A precompiled header names the files it was made of in every message,
        so they lie beside it: another installation with the same ones may have made it.
        """
        return self.directory / "include"

    @property
    def key(self) -> str:
        """Changes with anything that may change what a build gives."""
        return self.directory.name

    def prelude(self, unit: str) -> Path:
        """The header, precompiled beside itself, that a `host` or `device` unit starts with."""
        return self.directory / unit / "prelude.h"

    @property
    def visible(self) -> tuple[Path, ...]:
        """What a compiler in its sandbox has to read beside its own installation."""
        return (self.directory, self.cuda_include, NVCC_INCLUDE)

    def includes(self) -> tuple[str, ...]:
        return ("-isystem", str(self.headers), "-isystem", str(self.cuda_include))


def default_cache() -> Path:
    """Where prepared files live unless the configuration says otherwise."""
    return user_cache_path("kernelwright")


def prepare(
    cache: Path | None = None,
    *,
    cuda_home: Path | None = None,
    progress: Progress | None = None,
    checked: bool = True,
) -> Toolchain:
    """The toolchain, with its shared files in place; quick when they are there already.

    Device code can be checked as it runs unless `checked` is false, which makes it about twice as fast.
    `progress(step, i, n)` is called as step i of n begins, and only where there is something to make.
    Raises EnvironmentFault for a missing compiler or headers, a directory that cannot be written, and
    a preparation that fails.
    """
    gxx, version = compiler_here()
    cuda_include = cuda_headers.directory(cuda_home)
    cuda_version = cuda_headers.version(cuda_include)
    architecture = _architecture()
    host = (STANDARD, "-O0", *_COMMON)
    device = (STANDARD, "-O2", *architecture, "-fno-strict-aliasing", _WRAP, "-DKW_DEVICE_UNIT=1")
    device = (*device, *_TORCH_DEFINES, *_COMMON, *(CHECKS if checked else ()))
    flags = " ".join((*host, *device))
    content = "\n".join(content_of(CPP / part) for part in ("include", "runtime", "torch"))
    torch = torch_memory.headers()
    made_for = (version, cuda_version, torch_memory.version(torch))
    key = digest(_LAYOUT, *made_for, flags, *_PRELUDES.values(), content)[:24]
    parent = (cache or default_cache()) / "emulator"
    toolchain = Toolchain(
        gxx=gxx,
        gxx_version=version,
        cuda_include=cuda_include,
        cuda_version=cuda_version,
        directory=parent / key,
        host_flags=host,
        device_flags=device,
    )
    make_once(toolchain.directory, lambda: _make(toolchain, torch, progress))
    return toolchain


def compiler_here() -> tuple[Path, str]:
    """g++ and its version. Raises EnvironmentFault where there is none."""
    gxx = shutil.which("g++")
    if gxx is None:
        raise EnvironmentFault("no C++ compiler: the emulator needs g++ (apt-get install g++)")
    return Path(gxx), _output([gxx, "-dumpfullversion"]).strip()


def make_once(directory: Path, make: Callable[[], None]) -> None:
    """Has `make` fill the new `directory`, unless that is there and whole; one process at a time.

    Raises EnvironmentFault where it cannot be written, or is long in the making by another process.
    """
    if _intact(directory):
        return
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            if _intact(directory):
                return
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make()
            _seal(directory)
    except Timeout as error:
        raise EnvironmentFault(
            f"another process has been preparing the emulator for {_LOCK_SECONDS} s: {directory}.lock"
        ) from error
    except OSError as error:
        raise EnvironmentFault(f"cannot prepare the emulator in {directory.parent}: {error}") from error


def _make(toolchain: Toolchain, torch: Path | None, progress: Progress | None) -> None:
    shutil.copytree(CPP / "include", toolchain.headers)
    steps: list[tuple[str, list[str]]] = [
        ("emulator runtime", _runtime_command(toolchain)),
        ("library for host code", _library_command(toolchain)),
        ("headers for host code", _prelude_command(toolchain, "host", toolchain.host_flags)),
        ("headers for device code", _prelude_command(toolchain, "device", toolchain.device_flags)),
    ]
    if torch is not None:
        compiler = [str(toolchain.gxx), *torch_memory.options(torch), *toolchain.includes()]
        made = str(toolchain.directory / torch_memory.NAME)
        command = [*compiler, str(CPP / "torch" / "allocator.cpp"), "-lc10", "-o", made]
        steps.append(("memory of torch's tensors", command))
    run_steps(steps, progress)


def run_steps(steps: Sequence[tuple[str, list[str]]], progress: Progress | None) -> None:
    """Runs the command of each named step. Raises EnvironmentFault for one that fails."""
    for number, (name, command) in enumerate(steps, 1):
        if progress is not None:
            progress(name, number, len(steps))
        _compile(name, command)


def _runtime_command(toolchain: Toolchain) -> list[str]:
    sources = sorted(str(path) for path in (CPP / "runtime").iterdir() if path.suffix in (".cpp", ".S"))
    return [
        str(toolchain.gxx), "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread",
        f"-Wl,-soname,{RUNTIME_NAME}", "-Wl,-Bsymbolic", *toolchain.includes(), *sources,
        "-o", str(toolchain.runtime),
    ]  # fmt: skip


def _library_command(toolchain: Toolchain) -> list[str]:
    common = (STANDARD, "-O1", "-ffunction-sections", *_COMMON)
    source = str(CPP / "host" / "library.cpp")
    return [
        str(toolchain.gxx), *common, *toolchain.includes(), "-c", source, "-o", str(toolchain.host_object),
    ]  # fmt: skip


def _prelude_command(toolchain: Toolchain, unit: str, flags: tuple[str, ...]) -> list[str]:
    header = toolchain.prelude(unit)
    header.parent.mkdir()
    header.write_text(_PRELUDES[unit])
    return [
        str(toolchain.gxx), *flags, *toolchain.includes(), "-x", "c++-header", str(header),
        "-o", f"{header}.gch",
    ]  # fmt: skip


def _compile(name: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_STEP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"preparing the {name} took more than {_STEP_SECONDS} s") from error
    if done.returncode != 0:
        errors = re.findall(r"^.*error.*$", done.stderr, re.M) or done.stderr.splitlines() or ["no output"]
        raise EnvironmentFault(f"the {name} did not compile with {command[0]}: {errors[0]}")


def _seal(directory: Path) -> None:
    """A directory counts as made once it has its manifest."""
    sizes = {str(path.relative_to(directory)): path.stat().st_size for path in _files(directory)}
    digests = {name: _sha256(directory / name) for name in sizes if name.endswith(_LOADED)}
    (directory / "manifest.json").write_text(json.dumps({"sizes": sizes, "digests": digests}))


def _intact(directory: Path) -> bool:
    try:
        manifest = json.loads((directory / "manifest.json").read_text())
        sizes: dict[str, int] = manifest["sizes"]
        digests: dict[str, str] = manifest["digests"]
        whole = all((directory / name).stat().st_size == size for name, size in sizes.items())
        return whole and all(_sha256(directory / name) == kept for name, kept in digests.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _architecture() -> tuple[str, ...]:
    """x86-64-v3 where the CPU has it: vector units, and fused multiply-add as on a GPU."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    flags = set(re.findall(r"\w+", "".join(re.findall(r"^flags\s*:(.*)$", text, re.M)[:1])))
    wanted = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    return ("-march=x86-64-v3",) if wanted <= flags else ()


def content_of(directory: Path) -> str:
    """Changes with any file below the directory."""
    parts = [f"{path.relative_to(directory)}:{_sha256(path)}" for path in _files(directory)]
    return "\n".join(parts)


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(f"{command[0]} does not run: {error}") from error
