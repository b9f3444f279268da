"""System calls that Python lacks, their constants, and the keeper's exit codes."""

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

MEMORY_EXCEEDED, DISK_EXCEEDED, PROCESSES_EXCEEDED, SETUP_FAILED = RESERVED = (250, 251, 252, 253)

Plan = dict[str, "Any"]
LIBC = ctypes.CDLL(None, use_errno=True)


def must(result: int, doing: str) -> None:
    """Raise OSError, naming the operation `doing`, if a call of LIBC failed."""
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{doing}: {os.strerror(ctypes.get_errno())}")


def descendants(root: int) -> list[int]:
    """Return every living process below `root`, including those in namespaces."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        for child in _children(pid):
            found.append(child)
            todo.append(child)
    return found


def _children(pid: int) -> list[int]:
    listed: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                listed += map(int, file.read().split())
    except OSError:
        pass  # the process has ended meanwhile
    return listed
