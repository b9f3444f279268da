"""Placement and limits of the control groups (version 2) for sandboxes."""

import os
import secrets
from pathlib import Path

from agent.sandbox.levels import Limits

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def parent(root: Path = ROOT, own: Path = OWN) -> Path | None:
    """Return the parent directory of this process's own group if it offers both controllers, else None.

    New groups are siblings of the own group: a group that contains processes cannot delegate controllers.
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
    """Plan a new group below `place` with the bounds in `limits`. Shared memory counts as memory there."""
    bounds = {"memory.oom.group": "1"}
    if limits.memory_bytes is not None:
        most = limits.memory_bytes + limits.private_bytes + (limits.disk_bytes or 0)
        bounds |= {"memory.max": str(most), "memory.swap.max": "0"}
    if limits.processes is not None:
        bounds["pids.max"] = str(limits.processes)
    return {"group": str(place / f"kernelwright-{secrets.token_hex(8)}"), "bounds": bounds}
