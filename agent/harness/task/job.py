"""What an executor hands to the judge."""

import secrets
import time
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from agent.harness.task.servers import Servers
from agent.problems import Shrunken
from agent.records import (
    Admission,
    Candidate,
    KernelResources,
    LibraryOps,
    MoreBaselines,
    Problem,
    Record,
    Request,
)

Announce = Callable[[str], None]
"""Is told what is going on, in words for the user."""


def preparing(announce: Announce) -> Callable[[str, int, int], None]:
    """Announces the steps of what is prepared once per user: called with a step, its number and how many."""
    return lambda step, number, steps: announce(f"preparing {step} ({number} of {steps}, once)")


class Job(Record):
    """One candidate to be judged, with the limits that hold."""

    problem: Problem
    candidate: Candidate
    executor: Literal["cuda", "emulator"]
    candidate_timeout_s: float
    """No command that the candidate's process is given has a longer limit (`call_limits`); a build has
    BUILD_LIMIT_S instead."""
    cache_dir: str
    shrunken: Shrunken | None = None
    """The sizes the emulator judges at; None for CUDA."""
    protocol: Literal["full", "reduced", "quick", "further", "once"] = "full"
    admission: Admission | None = None
    """What probing the problem found; its families of inputs join the protocol."""
    build: Literal["slim", "load_inline"] = "slim"
    """How extensions for a GPU are built: `slim` leaves to stock `load_inline` what it has doubts about."""
    lines: bool = False
    """Whether a slim build keeps the lines of device code, for a profiler: the code stays the same."""
    requests: tuple[Request, ...] = ()
    """What is judged beside the protocol."""
    envelope_limit_s: float = 4.0
    """From here on no probe of what else a verified candidate handles is begun, and none takes longer."""
    measure: bool = True
    """Whether a verified candidate is timed; only a GPU can."""
    baselines: tuple[MoreBaselines, ...] = ()
    """What it is timed against beside eager, torch.compile and, where launches bound it, a CUDA graph."""
    library_ops: LibraryOps = "gemm-conv"
    """Which of torch's operators may stay; the candidate's own kernels have to do the rest."""
    unchecked: bool = False
    """Whether the emulator's sanitizer stays off."""
    confirms: Literal["cheap", "stock"] | None = None
    """The part of a second look at a verified candidate: by what costs little, or by a build of stock
    `load_inline` that is judged and timed as a whole."""
    kernels: tuple[KernelResources, ...] = ()
    """What ptxas said of the candidate's kernels in an earlier look, for a build that does not hear it."""
    known: tuple[str, ...] = ()
    """Programs that need not be judged again (`Build.program`)."""
    locates: str | None = None
    """The kind of a fault that a GPU reported without its place, where only that is wanted."""
    floor_ms: float | None = None
    """Roofline floor of the problem at its real shape on the GPU in question."""
    begun_ns: int = Field(default_factory=time.monotonic_ns)
    """When this look at the candidate began, by this machine's clock: its place in the queue for a GPU."""
    has_whole_gpu: bool = True
    """False while memory of the GPU is reserved for other trials as well: too little of it is no verdict."""
    servers: Servers = Servers()
    """Where the judge gets its processes from."""
    screened: bool = True
    """False only in tests: what the screen would refuse has to fall at a later stage."""


BUILD_LIMIT_S = 600.0
ORACLE_LIMIT_S = 600.0
HEALTH_LIMIT_S = 30.0
END_LIMIT_S = 30.0
OUTPUT_LIMIT_BYTES = 16 << 20


def secret_seed() -> int:
    """A seed that nothing outside the judge and its oracle can know."""
    return secrets.randbits(61)
