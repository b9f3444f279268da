"""The servers that a judge gets its processes from, as their descriptors in its own process."""

from functools import cache

from agent.records import Record
from agent.sandbox import ProcessServer

TRUSTED = ("agent.harness.judge.evaluate", "agent.harness.oracle.server")
"""What the server of our own processes imports: whatever may run there."""
CANDIDATES = ("torch", "torch.profiler", "torch.utils.cpp_extension", "torch._dynamo")
"""What the server of the candidates' processes imports: nothing of ours.

The last is what torch imports itself where the parameters of a module are moved.
"""


class Servers(Record):
    """None where processes are started afresh."""

    trusted: int | None = None
    candidates: int | None = None

    def for_trusted(self) -> ProcessServer | None:
        return _client(self.trusted)

    def for_candidates(self) -> ProcessServer | None:
        return _client(self.candidates)


def _client(descriptor: int | None) -> ProcessServer | None:
    return None if descriptor is None else _inherited(descriptor)


@cache
def _inherited(descriptor: int) -> ProcessServer:
    return ProcessServer.inherited(descriptor)
