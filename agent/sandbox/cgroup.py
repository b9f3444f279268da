"""Control groups (version 2) for a sandbox: where they can be made, and with which bounds."""

import os
import secrets
from pathlib import Path

from agent.sandbox.levels import Limits

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def parent(root: Path = ROOT, own: Path = OWN) -> Path | None:
    """The directory beside this process's own group, where a new group has both controllers; else None.

    Not below its own: a group with processes in it cannot hand controllers on.
    """
    try:
        lines = own.read_text().splitlines()
        name = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
        place = (root / name).parent if name else root
        given = (place / "cgroup.subtree_control").read_text().split()
    except (OSError, StopIteration):
        return None
    return place if {"memory", "pids"} <= set(given) and os.access(place, os.W_OK) else None


def plan(place: Path, limits: Limits) -> dict[str, object]:
    """A new group below `place` with the bounds that `limits` has; shared memory counts as memory there."""
    bounds = {"memory.oom.group": "1"}
    if limits.memory_bytes is not None:
        most = limits.memory_bytes + limits.private_bytes + (limits.disk_bytes or 0)
        bounds |= {"memory.max": str(most), "memory.swap.max": "0"}
    if limits.processes is not None:
        bounds["pids.max"] = str(limits.processes)
    return {"group": str(place / f"kernelwright-{secrets.token_hex(8)}"), "bounds": bounds}
