"""What became of a request for an extension."""

from pathlib import Path

from agent.records import Finding, KernelResources, Record

LANE = "emulator-slim"


class Built(Record):
    """What became of a request."""

    library: Path | None
    """The shared library to load; None where there is none."""
    seconds: float
    lane: str = LANE
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    """What NVIDIA's compiler says of each kernel; empty where it did not check them."""
    notes: tuple[str, ...] = ()
    """What was not checked, and why."""
    findings: tuple[Finding, ...] = ()
    """Why there is no library, headline first."""
    log: str = ""
    """The compiler's words, without this machine's paths."""
    unsupported: bool = False
    """The emulator cannot judge this code; another executor may."""
