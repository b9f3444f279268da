"""Control group (version 2) of one sandboxed command, which limits its memory and number of processes."""

import os

from system import Plan  # type: ignore[import-not-found]


def make(plan: Plan) -> None:
    """Create the control group of a plan and set its bounds."""
    os.mkdir(plan["group"])
    for name, value in plan["bounds"].items():
        _write(plan, name, value)


def join(plan: Plan) -> None:
    """Move this process into the group, to which all processes that it starts will belong."""
    _write(plan, "cgroup.procs", "0")


def ran_out_of_memory(plan: Plan) -> bool:
    """Return True if the operating system killed a process of the group for lack of memory."""
    try:
        with open(plan["group"] + "/memory.events") as file:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file)
    except OSError:
        return False


def remove(plan: Plan) -> None:
    """Remove the group, which must have no processes left."""
    try:
        os.rmdir(plan["group"])
    except OSError:
        pass  # an empty group left behind limits nothing


def _write(plan: Plan, name: str, value: str) -> None:
    with open(plan["group"] + "/" + name, "w") as file:
        file.write(value)
