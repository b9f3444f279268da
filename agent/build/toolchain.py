"""Toolchain of both backends: the compiler, CUDA's headers, and a directory prepared once per user.

A prepared directory is named by a digest of all its inputs. After a change of a header, a flag or the
compiler, a new directory is made. A damaged directory is made again.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from agent.errors import EnvironmentFault
from agent.records import Record

Progress = Callable[[str, int, int], None]

CPP = Path(__file__).resolve().parents[1] / "emulator" / "cpp"
NVCC_INCLUDE = Path(__file__).resolve().parent / "nvcc" / "include"
RUNTIME_NAME = "libkw_runtime.so"
STANDARD = "-std=c++20"
_LOCK_SECONDS = 900
_STEP_SECONDS = 600
_LOADED = (".so", ".o")  # kinds of files whose contents are checked, as damage would show only at run time


class Toolchain(Record):
    """Compilers, headers and flags of a build, valid as long as its directory exists."""

    gxx: Path
    gxx_version: str
    cuda_include: Path
    cuda_version: str
    directory: Path
    host_flags: tuple[str, ...]
    device_flags: tuple[str, ...]

    @property
    def runtime(self) -> Path:
        """Path of the emulator's runtime library, which torch_shim loads and every extension links."""
        return self.directory / RUNTIME_NAME

    @property
    def host_object(self) -> Path:
        """Object file with torch's operators and entry points, linked to host code with the slim headers."""
        return self.directory / "host.o"

    @property
    def headers(self) -> Path:
        """Directory with a copy of the emulator's headers.

        Compiler messages name this copy, as the precompiled header was made from it.
        """
        return self.directory / "include"

    @property
    def key(self) -> str:
        """Digest of everything in the toolchain that may change a build's result."""
        return self.directory.name

    def prelude(self, unit: str) -> Path:
        """Return the prelude of a `host` or `device` unit, a header that is precompiled beside it."""
        return self.directory / unit / "prelude.h"

    @property
    def visible(self) -> tuple[Path, ...]:
        """Paths that a sandboxed compiler must read, in addition to its own installation."""
        return (self.directory, self.cuda_include, NVCC_INCLUDE)

    def includes(self) -> tuple[str, ...]:
        return ("-isystem", str(self.headers), "-isystem", str(self.cuda_include))


def default_cache() -> Path:
    """Return the default directory for prepared files, which the configuration may override."""
    return user_cache_path("kernelwright")


def compiler_here() -> tuple[Path, str]:
    """Return g++ and its version. Raises EnvironmentFault if it is not installed."""
    gxx = shutil.which("g++")
    if gxx is None:
        raise EnvironmentFault("no C++ compiler: the emulator needs g++ (apt-get install g++)")
    return Path(gxx), _output([gxx, "-dumpfullversion"]).strip()


def make_once(directory: Path, make: Callable[[], None], progress: Progress | None = None) -> None:
    """Make `directory` by `make` unless it exists and is intact. One process makes it at a time.

    `progress` is called if another process is already making the directory. Raises EnvironmentFault if the
    directory cannot be written, or if the other process takes too long.
    """
    if _intact(directory):
        return
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with _alone(directory, progress):
            if _intact(directory):
                return
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make()
            _seal(directory)
    except Timeout as error:
        raise EnvironmentFault(
            f"another process has been preparing the emulator for more than {_LOCK_SECONDS} s; "
            f"it holds {directory}.lock"
        ) from error
    except OSError as error:
        raise EnvironmentFault(f"cannot prepare the emulator in {directory.parent}: {error}") from error


@contextlib.contextmanager
def _alone(directory: Path, progress: Progress | None) -> Iterator[None]:
    """Hold the directory's lock, which the operating system's kernel releases when its holder dies."""
    lock = FileLock(directory.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress is not None:
            progress("waiting for another process that prepares the compiler's headers", 0, 1)
        lock.acquire(timeout=_LOCK_SECONDS)
    try:
        yield
    finally:
        lock.release()


Steps = Sequence[tuple[str, Sequence[list[str]]]]
"""Steps of a preparation, each with its name and its commands."""


def run_steps(steps: Steps, progress: Progress | None, *, at_once: int | None = None) -> None:
    """Run all commands of the steps in order, as many at once as there are processors, or `at_once`.

    `at_once` has to be 1 if a command needs another's output. Raises EnvironmentFault if a command fails,
    after the running commands have ended.
    """
    telling = threading.Lock()

    def run(number: int, name: str, command: list[str], begins: bool) -> None:
        if begins and progress is not None:
            with telling:
                progress(name, number, len(steps))
        _compile(name, command)

    with ThreadPoolExecutor(at_once or len(os.sched_getaffinity(0))) as pool:
        running = [
            pool.submit(run, number, name, command, begins=command is commands[0])
            for number, (name, commands) in enumerate(steps, 1)
            for command in commands
        ]
        try:
            for done in running:
                done.result()
        except EnvironmentFault:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _compile(name: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_STEP_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"preparing the {name} took more than {_STEP_SECONDS} s") from error
    if done.returncode != 0:
        errors = re.findall(r"^.*error.*$", done.stderr, re.M) or done.stderr.splitlines() or ["no output"]
        raise EnvironmentFault(f"the {name} did not compile with {command[0]}: {errors[0]}")


def _seal(directory: Path) -> None:
    """Write the manifest of sizes and digests, which marks the directory as complete."""
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


def content_of(directory: Path) -> str:
    """Return the names and digests of all files below the directory, as a text."""
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
