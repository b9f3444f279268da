"""A control group (version 2) for one command: the kernel limits its memory and its processes."""

import os

from system import Plan  # type: ignore[import-not-found]


def make(plan: Plan) -> None:
    """Create the group and set its bounds."""
    os.mkdir(plan["group"])
    for name, value in plan["bounds"].items():
        _write(plan, name, value)


def join(plan: Plan) -> None:
    """Move this process, and with it everything it will start, into the group."""
    _write(plan, "cgroup.procs", "0")


def ran_out_of_memory(plan: Plan) -> bool:
    """Return True if the kernel's OOM killer has killed a process of the group."""
    try:
        with open(plan["group"] + "/memory.events") as file:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file)
    except OSError:
        return False


def remove(plan: Plan) -> None:
    """Remove the group, in which nothing runs any more."""
    try:
        os.rmdir(plan["group"])
    except OSError:
        pass  # an empty group left behind limits nothing


def _write(plan: Plan, name: str, value: str) -> None:
    with open(plan["group"] + "/" + name, "w") as file:
        file.write(value)
