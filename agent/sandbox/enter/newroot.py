"""Construction of the root directory that the sandboxed command sees, from the plan's steps."""

import ctypes
import os

from system import (  # type: ignore[import-not-found]
    LIBC,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    NEWCGROUP,
    NEWIPC,
    NEWNET,
    NEWNS,
    NEWPID,
    NEWUSER,
    NEWUTS,
    Plan,
    must,
)

PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def new_user_and_pids(plan: Plan) -> None:
    """Make the next fork process 1 of a new pid namespace, in a new user namespace if `user_map` is set."""
    if plan["user_map"] is not None:
        must(LIBC.unshare(NEWUSER), "a new user namespace")
        for name, text in plan["user_map"].items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    must(LIBC.unshare(NEWPID), "a new pid namespace")


def enter(plan: Plan) -> None:
    must(LIBC.unshare(NEWNS | NEWNET | NEWIPC | NEWUTS | NEWCGROUP), "new namespaces")
    LIBC.sethostname(b"sandbox", 7)
    # A mount on /tmp hides its contents, so the mount becomes the root, with the old root visible inside.
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    os.mkdir("/tmp/old")
    os.mkdir("/tmp/new")
    _pivot("/tmp", "/tmp/old")
    os.chdir("/")
    _mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "size=4m,mode=755")
    for step in plan["root"]:
        _place(*step)
    _seal([step[1] for step in plan["root"] if step[0] in ("bind", "mask")])
    os.chdir("/new")
    _pivot(".", ".")
    must(LIBC.umount2(b".", MNT_DETACH), "leaving the old root")
    os.chdir(plan["folder"])


def _place(kind: str, target: str, source: str) -> None:
    """Carry out one step of the new root (`view`).

    `source` is a path, a size in bytes, a link's target or the mode of proc.
    """
    place = "/new" + target
    if kind == "link":
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(source, place)
    elif kind in ("tmpfs", "mask"):
        os.makedirs(place, exist_ok=True)
        mode = "1777" if kind == "tmpfs" else "755"
        _mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, f"size={source},mode={mode}")
    elif kind == "proc":
        os.makedirs(place, exist_ok=True)
        flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
        _mount("proc", place, "proc", flags if source == "writable" else flags | MS_RDONLY)
    else:
        if os.path.isdir("/old" + source):
            os.makedirs(place, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount("/old" + source, place, None, MS_BIND | MS_REC)


def _seal(targets: list[str]) -> None:
    """Remount the root, the targets and all mounts below the targets read-only, with their other flags."""
    with open("/new/proc/self/mountinfo") as file:
        mounted = [_unescaped(line.split()[4]) for line in file]
    for place in ["/new", *(m for m in mounted if any(_is_below(m, "/new" + t) for t in targets))]:
        kept = os.statvfs(place).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _mount(None, place, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept)


def _unescaped(field: str) -> str:
    for octal in ("\\040", "\\011", "\\012", "\\134"):
        field = field.replace(octal, chr(int(octal[1:], 8)))
    return field


def _is_below(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent + "/")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    words = [word.encode() if word else None for word in (source, target, kind)]
    must(LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() or None), f"mounting {target}")


def _pivot(new: str, old: str) -> None:
    number = PIVOT_ROOT[os.uname().machine]
    must(LIBC.syscall(number, new.encode(), old.encode()), "changing the root")
