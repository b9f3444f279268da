"""The job that an executor hands to the judge."""

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
"""Callback that receives progress messages for the user."""


def preparing(announce: Announce) -> Callable[[str, int, int], None]:
    """Return a callback that announces preparation done once per user.

    Its arguments are a step, the step's number and the number of steps.
    """
    return lambda step, number, steps: announce(f"preparing {step} ({number} of {steps}, once)")


class Job(Record):
    """One candidate to be judged, with its settings and limits."""

    problem: Problem
    candidate: Candidate
    executor: Literal["cuda", "emulator"]
    candidate_timeout_s: float
    """Maximum seconds for a command of the worker (`call_limits`); a build may take BUILD_LIMIT_S."""
    cache_dir: str
    shrunken: Shrunken | None = None
    """Sizes at which the emulator judges. None for CUDA."""
    protocol: Literal["full", "reduced", "quick", "further", "once", "large"] = "full"
    admission: Admission | None = None
    """Result of the problem's admission, whose additional families of inputs join the protocol."""
    build: Literal["slim", "load_inline"] = "slim"
    """Build of GPU extensions: `slim` is fast and leaves doubtful requests to stock `load_inline`."""
    lines: bool = False
    """True if a slim build keeps line information of device code for a profiler, with unchanged code."""
    requests: tuple[Request, ...] = ()
    """Optional checks that are judged in addition to the protocol."""
    envelope_limit_s: float = 4.0
    """Seconds after which no envelope probe of a verified candidate starts, and limit of each probe."""
    measure: bool = True
    """True if a verified candidate is timed, which only a GPU can do."""
    baselines: tuple[MoreBaselines, ...] = ()
    """Baselines beside eager, torch.compile and, if launches dominate the eager time, a CUDA graph."""
    library_ops: LibraryOps = "gemm-conv"
    """Torch operators that the candidate may use for part of the result."""
    unchecked: bool = False
    """True if the emulator's sanitizer stays off."""
    confirms: Literal["cheap", "stock"] | None = None
    """Part of a second look at a verified candidate, or None for a first look.

    `cheap` runs the emulator and compute-sanitizer at small sizes. `stock` judges and times the candidate in
    a build by stock `load_inline`.
    """
    kernels: tuple[KernelResources, ...] = ()
    """Kernel resources that ptxas reported in the first look, since stock builds hide its report."""
    known: tuple[str, ...] = ()
    """Identities (`Build.program`) of programs that were judged before; for them, Rebuilt is raised."""
    locates: str | None = None
    """Kind of a fault that a GPU reported without location, if the job only has to locate it."""
    floor_ms: float | None = None
    """Roofline floor of the problem at its own sizes on the GPU to time on, in milliseconds."""
    begun_ns: int = Field(default_factory=time.monotonic_ns)
    """Start of this look at the candidate by `time.monotonic_ns`, which orders the GPU's queue."""
    has_whole_gpu: bool = True
    """False while other trials use GPU memory too, so that running out of memory is no verdict."""
    servers: Servers = Servers()
    """Servers from which the judge gets its processes."""
    screened: bool = True
    """False only in tests that check that later stages refuse a candidate without the screen."""


BUILD_LIMIT_S = 600.0
ORACLE_LIMIT_S = 600.0
HEALTH_LIMIT_S = 30.0
END_LIMIT_S = 30.0
OUTPUT_LIMIT_BYTES = 16 << 20


def secret_seed() -> int:
    """Return a random seed of 61 bits, known to the judge and its oracle only."""
    return secrets.randbits(61)
