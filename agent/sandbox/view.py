"""Part of the file system that a sandboxed command sees, as the steps that build its root directory.

A step is (kind, target, source). `bind` shows a path read-only; `write` and `device` keep its permissions.
`link` is a symbolic link, and `tmpfs` an empty directory with a size in bytes. `mask` is a directory that
stays empty. `proc` shows the processes of the sandbox, `writable` or `read-only`.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from agent import config
from agent.sandbox.levels import Level

Step = tuple[str, str, str]

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc/alternatives",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)  # fmt: skip
GPU_SYSTEM = ("/sys/bus/pci", "/sys/class/drm", "/sys/devices", "/sys/module/nvidia")
DEVICES = ("null", "zero", "full", "random", "urandom")
SHARED_MEMORY_BYTES = 64 << 20
_SITE = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
PACKAGE = Path(__file__).resolve().parents[1]


class Box(NamedTuple):
    """Sandbox of one command: its folder, the paths it sees, and its isolation."""

    folder: Path
    """Working directory of the command, its only writable directory besides a private /tmp."""
    sees: tuple[Path, ...] = ()
    """Paths that the command can read, in addition to the system's programs and libraries."""
    python: bool = False
    """True if the command sees this interpreter's packages, except for the files of `agent`."""
    gpu: bool = False
    level: Level | None = None
    """Isolation level; None stands for the strongest on this machine."""


def steps(box: Box, private_bytes: int) -> list[Step]:
    """Return the steps of the root directory for `box`; each follows the steps of its parent directories."""
    shown = [Path(path) for path in SYSTEM] + [Path(sys.base_prefix), *box.sees]
    if box.python:
        shown += _packages()
    if box.gpu:
        shown += [Path(path) for path in (*GPU_SYSTEM, *_library_path())]
    made = {
        "/tmp": ("tmpfs", "/tmp", str(private_bytes)),
        "/dev/shm": ("tmpfs", "/dev/shm", str(SHARED_MEMORY_BYTES)),
        # CUDA writes to its own process's files in /proc; files of root stay protected.
        "/proc": ("proc", "/proc", "writable" if box.gpu else "read-only"),
        "/dev/fd": ("link", "/dev/fd", "/proc/self/fd"),
    }
    for path in shown:
        for step in _reached(path):
            made.setdefault(step[1], step)
    for path in _devices(box.gpu):
        made[str(path)] = ("device", str(path), str(path))
    for path in _hidden(step for step in made.values() if step[0] == "bind"):
        made[str(path)] = ("mask", str(path), "4096")
    for step in _reached(box.folder.absolute()):
        made[step[1]] = step if step[0] == "link" else ("write", *step[1:])
    return _ordered(made.values())


def environment(given: dict[str, str]) -> dict[str, str]:
    """Return the environment variables for a command with its own root, where HOME and TMPDIR are /tmp."""
    return given | {"HOME": "/tmp", "TMPDIR": "/tmp", "USER": "nobody", "LOGNAME": "nobody"}


def devices_are_open() -> bool:
    """Return True if any user may use the GPU's device files."""
    return all(path.is_dir() or path.stat().st_mode & 0o006 == 0o006 for path in _devices(True))


@cache
def _packages() -> list[Path]:
    """Return the directories of this interpreter's packages; torch may lie outside the prefix."""
    found = [Path(sys.prefix)]
    for name in ("torch", "numpy"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(Path(spec.origin).parents[1])
    return found


def _library_path() -> list[str]:
    given = config.child_environment().get("LD_LIBRARY_PATH", "")
    return [place for place in given.split(":") if place.startswith("/")]


def _devices(gpu: bool) -> list[Path]:
    found = [Path("/dev") / name for name in DEVICES]
    return found + (sorted(Path("/dev").glob("nvidia*")) if gpu else [])


def _reached(path: Path) -> Iterator[Step]:
    """Yield steps for the symbolic links in `path` and for their target, or none if it does not exist."""
    todo, current = list(path.parts[1:]), Path("/")
    links: list[Step] = []
    while todo:
        current = current / todo.pop(0)
        if current.is_symlink():
            target = current.readlink()
            links.append(("link", str(current), str(target)))
            todo = [*Path(os.path.normpath(current.parent / target)).parts[1:], *todo]
            current = Path("/")
    if current.exists():
        yield from links
        yield ("bind", str(current), str(current))


def _hidden(shown: Iterable[Step]) -> Iterator[Path]:
    """Yield the directories of this package and its checkout that lie below shown directories.

    They include the package's directory in site-packages, which holds data files of an editable installation.
    """
    checkout = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else PACKAGE
    installed = {Path(path).resolve() / PACKAGE.name for path in (*_packages(), *map(Path, _SITE))}
    roots = [Path(target) for _, target, _ in shown]
    for place in {checkout, PACKAGE, *installed}:
        if place.is_dir() and any(place.is_relative_to(root) for root in roots):
            yield place


def _ordered(made: Iterable[Step]) -> list[Step]:
    """Return the steps, parents before children, without those that a shown parent directory covers."""
    kept: list[Step] = []
    for step in sorted(made, key=lambda step: step[1].count("/")):
        parents = [other for other in kept if _is_below(step[1], other[1])]
        nearest = max(parents, key=lambda other: len(other[1]), default=None)
        if nearest is None or nearest[0] not in ("bind", "write") or step[0] in ("mask", "write", "tmpfs"):
            kept.append(step)
    return kept


def _is_below(path: str, parent: str) -> bool:
    return path.startswith(parent + "/")
