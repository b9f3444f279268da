"""Location and limits of sandboxes' control groups (version 2)."""

import os
import secrets
from pathlib import Path

from agent.sandbox.levels import Limits

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def parent(root: Path = ROOT, own: Path = OWN) -> Path | None:
    """Return the directory for new groups, or None if this process cannot make groups with limits.

    It is the parent of this process's group and has to delegate the controllers `memory` and `pids`. New
    groups are siblings of this process's group, as a group with processes cannot delegate controllers.
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
    """Return the plan of a new group below `place` with the bounds in `limits`.

    The memory bound includes shared memory, so it adds the limit of files.
    """
    bounds = {"memory.oom.group": "1"}
    if limits.memory_bytes is not None:
        most = limits.memory_bytes + limits.private_bytes + (limits.disk_bytes or 0)
        bounds |= {"memory.max": str(most), "memory.swap.max": "0"}
    if limits.processes is not None:
        bounds["pids.max"] = str(limits.processes)
    return {"group": str(place / f"kernelwright-{secrets.token_hex(8)}"), "bounds": bounds}
