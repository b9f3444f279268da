"""Fork servers from which a judge gets its processes, as descriptors in the judge's process."""

from functools import cache
from typing import Literal

from agent.records import Record
from agent.sandbox import ProcessServer

TRUSTED = ("agent.harness.judge.evaluate", "agent.harness.oracle.server")
"""Modules that the server of trusted processes imports: those that its judges and oracles run."""
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "agent.harness.oracle.compiling")
"""Modules imported in addition on a machine with a GPU: most of those that a first compilation loads."""
MACHINE = "agent.harness.backends.machine"
"""Module by which the server of trusted processes queries compilers and GPUs once for all its judges."""
COMPILING = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Environment of the server of trusted processes: keeps torch from starting a process pool to compile."""
CANDIDATES = ("torch", "torch.profiler", "torch.utils.cpp_extension", "torch._dynamo")
"""Modules that the servers of the candidates' processes import, none of them part of this project.

Torch itself imports `torch._dynamo` when the parameters of a module are moved.
"""


class Servers(Record):
    """Descriptors of the servers, or None for processes that are started afresh instead of forked."""

    trusted: int | None = None
    emulator: int | None = None
    """Server for candidates on the emulator."""
    cuda: int | None = None
    """Server for candidates on a GPU, which has loaded the libraries that a worker needs first."""

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
