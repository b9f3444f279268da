"""The servers that a judge gets its processes from, as their descriptors in its own process."""

from functools import cache
from typing import Literal

from agent.records import Record
from agent.sandbox import ProcessServer

TRUSTED = ("agent.harness.judge.evaluate", "agent.harness.oracle.server")
"""What the server of our own processes imports: whatever may run there."""
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "agent.harness.oracle.compiling")
"""What it imports besides where there is a GPU: most of what a first compilation takes."""
MACHINE = "agent.harness.backends.machine"
"""There it also asks for compilers and GPUs, once for all its judges."""
COMPILING = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""With which environment. Otherwise a process for each processor is started for a kernel or two."""
CANDIDATES = ("torch", "torch.profiler", "torch.utils.cpp_extension", "torch._dynamo")
"""What the server of the candidates' processes imports: nothing of ours.

The last is what torch imports itself where the parameters of a module are moved.
"""


class Servers(Record):
    """None where processes are started afresh."""

    trusted: int | None = None
    emulator: int | None = None
    """Of candidates on the emulator."""
    cuda: int | None = None
    """Of candidates on a GPU: what is loaded there before everything else is loaded in the server already."""

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
