"""Isolation levels, the guarantees of each level, and resource limits, which hold at every level."""

import os
from pathlib import Path
from typing import Literal, NamedTuple

MEND = "install bubblewrap, or allow user namespaces (in a container: --cap-add SYS_ADMIN)"
Isolation = Literal["bubblewrap", "namespaces", "process"]


class Limits(NamedTuple):
    """Resources that a child may use before it is stopped; None means no limit."""

    output_bytes: int = 16 << 20
    """Maximum bytes that the child may print."""
    kept_bytes: int = 64 << 10
    """Number of bytes kept from the end of the output."""
    file_bytes: int | None = None
    """Maximum bytes of each file that the child writes."""
    memory_bytes: int | None = None
    """Maximum bytes of memory of all the child's processes together, checked ten times a second."""
    disk_bytes: int | None = None
    """Maximum bytes in the child's writable folder, checked ten times a second."""
    private_bytes: int = 1 << 30
    """Size in bytes of the child's private /tmp."""
    processes: int | None = None
    """Maximum number of processes and threads."""
    cpu_s: int | None = None
    """Maximum CPU seconds of each process."""
    address_bytes: int | None = None
    """Maximum bytes of address space of each process.

    Set for compilers only, as CUDA and the emulator's fibers reserve large address ranges.
    """
    gentle: bool = False
    """True for a trusted child that gets SIGTERM and ten seconds to end its own children, then SIGKILL."""


class Promise(NamedTuple):
    """Guarantee about a sandboxed child, in words (`text`), and the feature that it needs."""

    text: str
    needs: Literal["nothing", "filter", "root of its own", "user of its own"] = "nothing"


PROMISES = {
    "environment": Promise("it sees no variable but the allow-listed ones"),
    "descriptors": Promise("it inherits its standard streams and the answering pipe, no other descriptor"),
    "memory": Promise("its processes are stopped when they take too much memory"),
    "fork-bomb": Promise("it is refused more processes than it may have, or stopped"),
    "disk": Promise("it is stopped when its folder holds too much"),
    "output": Promise("it is stopped when it prints too much, and little of that is kept"),
    "exit": Promise("no exit code, signal or word of its own passes for an answer or for a fault of ours"),
    "daemons": Promise("what it started ends with it, whatever session or parent that has"),
    "privileges": Promise("it has no capability and gains none"),
    "network": Promise("it reaches no network, not even this machine's own", "filter"),
    "calls": Promise("it traces nothing, mounts nothing, makes no namespace and no other odd call", "filter"),
    "architecture": Promise("it makes no call by another architecture's numbers", "filter"),
    "sockets": Promise("it reaches no local socket of the machine", "root of its own"),
    "files": Promise("it sees no file of the user's and no secret of the system's", "root of its own"),
    "package": Promise("it sees nothing of this package, its references, tests or runs", "root of its own"),
    "others": Promise("it sees no other candidate and nothing of the oracle", "root of its own"),
    "system": Promise("it writes nothing but its folder and its own /tmp", "root of its own"),
    "cache": Promise("it reads what was built and cannot change it", "root of its own"),
    "private": Promise("its own /tmp is empty, limited, and gone afterwards", "root of its own"),
    "processes": Promise("it sees no process but its own", "root of its own"),
    "signals": Promise("it signals no process but its own", "root of its own"),
    "user": Promise("it is another user than root", "user of its own"),
}
"""Guarantees that the tests check for each level this machine supports."""


class Level(NamedTuple):
    """Isolation level: its kind, and the features that this machine supports."""

    name: Isolation
    user: Literal["own", "mapped", "caller"] = "caller"
    """User of the sandbox.

    `own` is a separate user id, `mapped` the caller's id shown as nobody, and `caller` the caller's id.
    """
    filtered: bool = True
    """True if system calls are filtered."""
    groups: Path | None = None
    """Directory for each child's control group; None if memory and processes are only watched."""

    @property
    def gaps(self) -> tuple[str, ...]:
        """Notes for a verdict's scope on the protections that this level lacks."""
        said = []
        if self.groups is None:
            said.append("isolation: memory is watched ten times a second, not bounded by a cgroup")
        if self.name == "process":
            said.append("isolation: a plain process sees the files and processes of the user")
        if self.user != "own" and os.geteuid() == 0:
            said.append("isolation: the candidate's user is root outside of its sandbox")
        if not self.filtered:
            said.append("isolation: system calls are not filtered")
        return tuple(said)

    @property
    def promises(self) -> frozenset[str]:
        """Names in PROMISES that hold at this level."""
        given = {
            "nothing": True,
            "filter": self.filtered,
            "root of its own": self.name != "process",
            "user of its own": self.user != "caller",
        }
        return frozenset(name for name, promise in PROMISES.items() if given[promise.needs])
