"""A control group (version 2) for one command: the kernel bounds its memory and its processes there."""

import os

from system import Plan  # type: ignore[import-not-found]


def make(plan: Plan) -> None:
    """Makes the group and sets its bounds."""
    os.mkdir(plan["group"])
    for name, value in plan["bounds"].items():
        _write(plan, name, value)


def join(plan: Plan) -> None:
    """Puts this process, and with it all that it will start, into the group."""
    _write(plan, "cgroup.procs", "0")


def ran_out_of_memory(plan: Plan) -> bool:
    """Whether the kernel has killed a process of the group for its memory."""
    try:
        with open(plan["group"] + "/memory.events") as file:
            return any(line.startswith("oom_kill ") and line.split()[1] != "0" for line in file)
    except OSError:
        return False


def remove(plan: Plan) -> None:
    """Removes the group, which nothing runs in any more."""
    try:
        os.rmdir(plan["group"])
    except OSError:
        pass  # what is left is an empty group, which bounds nothing


def _write(plan: Plan, name: str, value: str) -> None:
    with open(plan["group"] + "/" + name, "w") as file:
        file.write(value)
