"""The levels of isolation, what each promises, and the limits that hold at all of them."""

import os
from typing import Literal, NamedTuple

Isolation = Literal["bubblewrap", "namespaces", "process"]


class Limits(NamedTuple):
    """What a child may use before it is stopped; None is no limit."""

    output_bytes: int = 16 << 20
    """Of what it prints."""
    file_bytes: int | None = None
    """Of every single file it writes."""
    memory_bytes: int | None = None
    """Of all its processes together, looked at ten times a second."""
    disk_bytes: int | None = None
    """Of the folder it may write, looked at as often."""
    private_bytes: int = 1 << 30
    """Of its own /tmp."""
    processes: int | None = None
    """Processes and threads."""
    cpu_s: int | None = None
    """Of every single process."""
    address_bytes: int | None = None
    """Address space of every process: for compilers only, CUDA and the emulator's fibers reserve too much."""
    gentle: bool = False
    """Of a trusted child: asked by SIGTERM first, with ten seconds to end children of its own."""


class Level(NamedTuple):
    """One kind of isolation with what of it is in force on this machine."""

    name: Isolation
    user: Literal["own", "mapped", "caller"] = "caller"
    """`own`: a user id of its own; `mapped`: the caller's, seen as nobody; `caller`: the caller's."""
    filtered: bool = True
    """Whether system calls are filtered."""

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is not in force, in words, for the scope of a verdict."""
        said = ["isolation: memory is watched ten times a second, not bounded by a cgroup"]
        if self.name == "process":
            said.append("isolation: a plain process sees the files and processes of the user")
        if self.user == "caller" and os.geteuid() == 0:
            said.append("isolation: the candidate runs as root, the number of its processes is only watched")
        if not self.filtered:
            said.append("isolation: system calls are not filtered")
        return tuple(said)
