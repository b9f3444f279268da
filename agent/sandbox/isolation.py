"""Choice of the strongest isolation that this machine supports, and the command line that enters it."""

import functools
import marshal
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from agent.sandbox import cgroup, view
from agent.sandbox import filter as calls
from agent.sandbox.enter.system import LIBC, PR_SET_DUMPABLE
from agent.sandbox.levels import Isolation, Level, Limits
from agent.sandbox.view import Box

ENTER = Path(__file__).resolve().parent / "enter"
INSIDE = Path("/.enter")
NOBODY = 65534
FIRST_UID = 0x70000000
"""First of 2^24 user ids that no common system assigns, one of which each sandbox started by root gets."""
TRY_S = 20
KEPT_PROCESSES = 4
"""Number of the sandbox's own processes, which the keeper counts like those of the command."""


def strongest(gpu: bool = False) -> Level:
    """Return the strongest isolation on this machine, probed once; with `gpu`, one that can use the GPU."""
    level = _strongest()
    if gpu and level.user == "own" and not view.devices_are_open():
        return level._replace(user="caller")
    return level


def hide() -> None:
    """Prevent other processes of this user from reading this process's memory or environment."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_DUMPABLE, 0)


@functools.cache
def _strongest() -> Level:
    plain = Level("process", filtered=False)
    level = next(filter(_works, _levels()), plain)
    bounded = level._replace(groups=cgroup.parent())
    return bounded if bounded.groups is not None and _works(bounded) else level


def enclosed(argv: list[str], box: Box, limits: Limits) -> list[str]:
    """Return the command that runs `argv` in `box`; the box's user becomes the owner of its folder.

    Inherited file descriptors stay open. See `enter/keeper.py` for the exit code.
    """
    level = box.level or strongest(box.gpu)
    plan = plan_of(box, limits)
    if level.name == "bubblewrap":
        # Inside the namespaces, a second `start.py` runs as process 1 and confines the command.
        inside = _enter(INSIDE, plan | {"keeper": False, "init": True})
        plan["confined"] = False
        argv = [*_bubblewrap(level, box, limits), "--", *inside, *argv]
    return [*_enter(ENTER, plan), *argv]


def plan_of(box: Box, limits: Limits) -> dict[str, Any]:
    """Return the plan by which `enter` runs a command in `box`.

    Under bubblewrap, the plan has no steps of the root directory, as bubblewrap builds it.
    """
    level = box.level or strongest(box.gpu)
    uid = _owner(box.folder) if level.user == "own" else None
    plan = {
        "keeper": True,
        "folder": str(box.folder.absolute()),
        "memory_bytes": limits.memory_bytes,
        "disk_bytes": limits.disk_bytes,
        "processes": limits.processes and limits.processes + KEPT_PROCESSES,
        "root": None,
        "user_map": None,
        "init": False,
        "group": None,
        "confined": True,
    } | _confinement(level, limits, uid)
    if level.groups is not None:
        plan |= cgroup.plan(level.groups, limits)
    if level.name == "namespaces":
        plan |= {"root": view.steps(box, limits.private_bytes), "init": True}
        plan["user_map"] = _user_map() if level.user == "mapped" else None
    return plan


def is_entered_by_us(box: Box) -> bool:
    """Return True if a running process can enter the box's isolation, which bubblewrap does not allow."""
    return (box.level or strongest(box.gpu)).name != "bubblewrap"


def surroundings(environment: dict[str, str], box: Box) -> dict[str, str]:
    """Return the environment variables of a command in `box`, given those outside the box."""
    level = box.level or strongest(box.gpu)
    return environment if level.name == "process" else view.environment(environment)


def _levels() -> Iterator[Level]:
    users: list[Literal["own", "mapped"]] = ["own", "mapped"] if os.geteuid() == 0 else ["mapped"]
    # Both levels give equal guarantees, but only `namespaces` can be entered by a running process.
    names: list[Isolation] = ["namespaces", "bubblewrap"] if shutil.which("bwrap") else ["namespaces"]
    for filtered in (True, False):
        for name in names:
            for user in users:
                yield Level(name, user, filtered)
    yield Level("process")


def _works(level: Level) -> bool:
    if level.filtered and not calls.program():
        return False
    with tempfile.TemporaryDirectory(prefix="kernelwright-try-") as folder:
        try:
            command = enclosed(["/bin/sh", "-c", ": > tried"], Box(Path(folder), level=level), Limits())
            done = subprocess.run(command, capture_output=True, timeout=TRY_S, check=False, cwd=folder)
        except (OSError, subprocess.TimeoutExpired):
            # Isolation fails, for example, as root of a user namespace without any other user.
            return False
        return done.returncode == 0 and (Path(folder) / "tried").exists()


def _owner(folder: Path) -> int:
    """Make a sandbox user own the folder and its contents, and return the user's id.

    A sandbox user that owns the folder already is kept.
    """
    owner = folder.stat().st_uid
    if owner < FIRST_UID:
        owner = _new_uid()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    return owner


def _new_uid() -> int:
    """Return a random user id for a sandbox if this user namespace maps it, else NOBODY."""
    wanted = FIRST_UID + secrets.randbelow(1 << 24)
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= wanted < first + count:
            return wanted
    return NOBODY


def _user_map() -> dict[str, str]:
    return {
        "setgroups": "deny",
        "uid_map": f"{NOBODY} {os.geteuid()} 1",
        "gid_map": f"{NOBODY} {os.getegid()} 1",
    }


def _confinement(level: Level, limits: Limits, uid: int | None) -> dict[str, Any]:
    """Return the plan's resource limits, user id and system-call filter of the command's process."""
    asked = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NPROC": limits.processes if level.user != "caller" else None,
        "RLIMIT_CPU": limits.cpu_s,
        "RLIMIT_AS": limits.address_bytes,
    }
    return {
        "limits": {name: value for name, value in asked.items() if value is not None},
        "uid": uid,
        "filter": calls.program().hex() if level.filtered else "",
    }


def _enter(place: Path, plan: dict[str, Any]) -> list[str]:
    # Use the real interpreter: the link in a virtual environment may not be visible in the sandbox.
    python = os.path.realpath(sys.executable)
    return [python, "-I", "-S", str(place / "start.py"), marshal.dumps(plan).hex()]


def _bubblewrap(level: Level, box: Box, limits: Limits) -> list[str]:
    words = [
        str(shutil.which("bwrap")), "--as-pid-1", "--die-with-parent", "--unshare-pid", "--unshare-net",
        "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox",
    ]  # fmt: skip
    if level.user == "mapped":
        words += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    elif level.user == "own":
        words += [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    made = {"/"}
    for kind, target, source in view.steps(box, limits.private_bytes):
        # bubblewrap makes missing parent directories accessible to root only, so they are made here.
        for parent in reversed(Path(target).parents):
            if str(parent) not in made:
                words += ["--perms", "0755", "--dir", str(parent)]
        made |= {target, *map(str, Path(target).parents)}
        words += _option(kind, target, source)
    words += ["--ro-bind", str(ENTER), str(INSIDE), "--remount-ro", "/"]
    return [*words, "--chdir", str(box.folder.absolute())]


def _option(kind: str, target: str, source: str) -> list[str]:
    """Return bubblewrap's options for one step of the root directory."""
    size = ["--size", source, "--tmpfs", target]
    return {
        "bind": ["--ro-bind", source, target],
        "write": ["--bind", source, target],
        "device": ["--dev-bind", source, target],
        "link": ["--symlink", source, target],
        "tmpfs": ["--perms", "1777", *size],
        "mask": [*size, "--remount-ro", target],
        # A user that the namespace maps to root could change the machine's settings in a writable /proc.
        "proc": ["--proc", target, *([] if source == "writable" else ["--remount-ro", target])],
    }[kind]
