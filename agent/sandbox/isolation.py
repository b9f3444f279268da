"""Which isolation this machine gives, found by trying it, and the command line that enters it."""

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
"""From here on user ids belong to nobody on a common system; each sandbox of root's gets one of 2^24."""
TRY_S = 20
KEPT_PROCESSES = 4
"""Of the sandbox's own, which the keeper counts with the others."""


def strongest(gpu: bool = False) -> Level:
    """The strongest isolation that works here; tried once per process. With `gpu`, one that reaches it."""
    level = _strongest()
    if gpu and level.user == "own" and not view.devices_are_open():
        return level._replace(user="caller")
    return level


def hide() -> None:
    """No other process of the same user may read this one's memory or environment from now on."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_DUMPABLE, 0)


@functools.cache
def _strongest() -> Level:
    plain = Level("process", filtered=False)
    level = next(filter(_works, _levels()), plain)
    bounded = level._replace(groups=cgroup.parent())
    return bounded if bounded.groups is not None and _works(bounded) else level


def enclosed(argv: list[str], box: Box, limits: Limits) -> list[str]:
    """The command that runs `argv` in `box`; the folder becomes the property of the user it runs as.

    The file descriptors that it inherits stay open. Its exit code is what `enter` says.
    """
    level = box.level or strongest(box.gpu)
    plan = plan_of(box, limits)
    if level.name == "bubblewrap":
        # What has entered the namespaces goes on as their process 1, and is confined there.
        inside = _enter(INSIDE, plan | {"keeper": False, "init": True})
        plan["confined"] = False
        argv = [*_bubblewrap(level, box, limits), "--", *inside, *argv]
    return [*_enter(ENTER, plan), *argv]


def plan_of(box: Box, limits: Limits) -> dict[str, Any]:
    """What `enter` does for a command in `box`; under bubblewrap without the root directory."""
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
    """Whether a process that runs already can enter the isolation; only a new program can with bubblewrap."""
    return (box.level or strongest(box.gpu)).name != "bubblewrap"


def surroundings(environment: dict[str, str], box: Box) -> dict[str, str]:
    """The environment of a command in `box`, given what it would have outside."""
    level = box.level or strongest(box.gpu)
    return environment if level.name == "process" else view.environment(environment)


def _levels() -> Iterator[Level]:
    users: list[Literal["own", "mapped"]] = ["own", "mapped"] if os.geteuid() == 0 else ["mapped"]
    # Both promise the same; only the first can be entered by a process that runs already.
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
            # Such as root of a user namespace in which there is no other user.
            return False
        return done.returncode == 0 and (Path(folder) / "tried").exists()


def _owner(folder: Path) -> int:
    """The user id that owns the folder and what lies in it from now on, new unless it is one of ours."""
    owner = folder.stat().st_uid
    if owner < FIRST_UID:
        owner = _new_uid()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    return owner


def _new_uid() -> int:
    """One that nobody else has, where this user namespace has it; else nobody's."""
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
    """What the process gives up just before it becomes the command."""
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
    # The interpreter itself, not the link in a virtual environment: the latter need not be visible.
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
        # bubblewrap makes missing parents for root alone.
        for parent in reversed(Path(target).parents):
            if str(parent) not in made:
                words += ["--perms", "0755", "--dir", str(parent)]
        made |= {target, *map(str, Path(target).parents)}
        words += _option(kind, target, source)
    words += ["--ro-bind", str(ENTER), str(INSIDE), "--remount-ro", "/"]
    return [*words, "--chdir", str(box.folder.absolute())]


def _option(kind: str, target: str, source: str) -> list[str]:
    """A step of the root in bubblewrap's words."""
    size = ["--size", source, "--tmpfs", target]
    return {
        "bind": ["--ro-bind", source, target],
        "write": ["--bind", source, target],
        "device": ["--dev-bind", source, target],
        "link": ["--symlink", source, target],
        "tmpfs": ["--perms", "1777", *size],
        "mask": [*size, "--remount-ro", target],
        # What a user namespace maps to root owns the machine's settings in there.
        "proc": ["--proc", target, *([] if source == "writable" else ["--remount-ro", target])],
    }[kind]
