"""Servers from which a judge gets its processes, as descriptors in its own process."""

from functools import cache
from typing import Literal

from agent.records import Record
from agent.sandbox import ProcessServer

TRUSTED = ("agent.harness.judge.evaluate", "agent.harness.oracle.server")
"""Modules that the server of the judge's trusted processes imports: everything that may run there."""
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "agent.harness.oracle.compiling")
"""Modules imported in addition where there is a GPU: most of what a first compilation loads."""
MACHINE = "agent.harness.backends.machine"
"""Module through which that server asks for compilers and GPUs, once for all its judges."""
COMPILING = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Environment of that server. Without it, one process per processor is started to compile a kernel or two."""
CANDIDATES = ("torch", "torch.profiler", "torch.utils.cpp_extension", "torch._dynamo")
"""Modules that the servers of the candidates' processes import, none of them part of this project.

Torch itself imports the last one where the parameters of a module are moved.
"""


class Servers(Record):
    """Descriptors of the servers. None where processes are started afresh."""

    trusted: int | None = None
    emulator: int | None = None
    """Server for candidates on the emulator."""
    cuda: int | None = None
    """Server for candidates on a GPU. It has already loaded what such a process loads first."""

    def descriptors(self) -> tuple[int, ...]:
        return tuple(number for number in (self.trusted, self.emulator, self.cuda) if number is not None)

    def for_trusted(self) -> ProcessServer | None:
        return _client(self.trusted)

    def for_candidates(self, executor: Literal["cuda", "emulator"]) -> ProcessServer | None:
        return _client(self.cuda if executor == "cuda" else self.emulator)


def _client(descriptor: int | None) -> ProcessServer | None:
    return None if descriptor is None else _inherited(descriptor)


@cache
def _inherited(descriptor: int) -> ProcessServer:
    return ProcessServer.inherited(descriptor)
