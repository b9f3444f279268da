"""System-call filter: a deny list as a classic BPF program for x86_64 and aarch64.

The filter is a second line of defence beside namespaces and dropped privileges. A denied call fails with
EPERM. clone3, whose flags a filter cannot read, fails with ENOSYS, so that the C library falls back to clone.
Only local sockets are allowed, so even a process without namespaces has no network.
"""

import errno
import os
import struct

AF_UNIX = 1
NAMESPACES = 0x7E020000
"""Flags of clone that create a namespace of any kind."""
_X32 = 0x40000000
_LOAD, _EQUAL, _SET, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_CLONE3 = 435
# System-call numbers for x86_64 and aarch64; None if the architecture lacks the call.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "iopl": (172, None), "ioperm": (173, None), "vhangup": (153, 58),
    "uselib": (134, None),
}  # fmt: skip


def program(machine: str | None = None) -> bytes:
    """Return the filter's instructions for `machine` or this machine; empty for an unknown architecture."""
    machine = machine or os.uname().machine
    if machine not in _AUDIT:
        return b""
    column = list(_AUDIT).index(machine)
    denied = [numbers[column] for numbers in _DENIED.values()]
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT[machine], skip_yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        code += [_step(_AT_LEAST, _X32, skip_no=1), _step(_RETURN, _KILL)]
    for number in denied:
        if number is not None:
            code += [_step(_EQUAL, number, skip_no=1), _step(_RETURN, _ERRNO | errno.EPERM)]
    code += [_step(_EQUAL, _CLONE3, skip_no=1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    code += [
        _step(_EQUAL, _CLONE[machine], skip_no=3), _step(_LOAD, _FIRST_ARGUMENT),
        _step(_SET, NAMESPACES, skip_no=1), _step(_RETURN, _ERRNO | errno.EPERM), _step(_LOAD, _NUMBER),
        _step(_EQUAL, _SOCKET[machine], skip_no=3), _step(_LOAD, _FIRST_ARGUMENT),
        _step(_EQUAL, AF_UNIX, skip_yes=1), _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]  # fmt: skip
    return b"".join(code)


def _step(code: int, value: int, *, skip_yes: int = 0, skip_no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, skip_yes, skip_no, value)
