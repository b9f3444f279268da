"""Last steps of a process before it runs the sandboxed command: limits, privileges, system-call filter."""

import ctypes
import os
import resource
import signal

from system import (  # type: ignore[import-not-found]
    LIBC,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    PR_SET_SECCOMP,
    Plan,
    must,
)

_CAPABILITY_VERSION = 0x20080522


def confine(plan: Plan) -> None:
    """Set resource limits, drop privileges and install the system-call filter."""
    for name, value in plan["limits"].items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    drop_privileges(plan)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if plan["filter"]:
        _install_filter(bytes.fromhex(plan["filter"]))


def drop_privileges(plan: Plan) -> None:
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if plan["uid"] is not None:
        os.setgroups([])
        os.setresgid(plan["uid"], plan["uid"], plan["uid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    must(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    # exec would clear root's capabilities, but a forked process that runs on without exec keeps them.
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    must(LIBC.capset(header, (ctypes.c_uint32 * 6)()), "giving up capabilities")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _install_filter(instructions: bytes) -> None:
    program = _Program(len(instructions) // 8, instructions)
    must(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "the system-call filter")


def run(command: list[str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(command[0], command)
