"""References: find one, read it, trace it, shrink it, and estimate how fast it could be.

`load` returns a Problem or raises ProblemError with one line that names file and line. No code of a reference
runs in this process: tracing happens in a time-limited child, and importing this package does not import
torch.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from agent.problems import child, finding
from agent.problems.finding import names, path
from agent.problems.lowering import lowered
from agent.problems.planning import affordable, few_draws, once
from agent.problems.roofline import GPUS, Gpu, floor_ms
from agent.problems.shrinking import MAX_ELEMENTS, MAX_MACS, Shrunken, hard_coded, shrink
from agent.records import Problem, Trace, digest

__all__ = [
    "GPUS", "MAX_ELEMENTS", "MAX_MACS", "Gpu", "Shrunken", "affordable", "code", "few_draws", "floor_ms",
    "hard_coded", "load", "lowered", "names", "once", "path", "shrink",
]  # fmt: skip


def load(
    address: str, *, kernelbench_root: Path | None = None, time_limit_s: float = 60,
    remembered: Callable[[str, Callable[[], Trace]], Trace] = lambda source, make: make(),
) -> Problem:  # fmt: skip
    """Read and trace the reference at `address`; takes seconds, whatever its shapes.

    `time_limit_s` limits the reference's own time. `remembered` returns a stored trace of this source or
    calls its second argument to make one. Raises ProblemError if the address leads to no reference, or if the
    reference raises, hangs or exits. Raises EnvironmentFault if the tracer cannot be started.
    """
    file = path(address, kernelbench_root)
    source = finding.source(file)
    trace = remembered(source, lambda: child.trace(source, str(file), time_limit_s))
    return Problem(name=finding.name(file), source=source, trace=trace)


@cache
def code() -> str:
    """Return a digest that changes with the code that traces and plans sizes."""
    return digest(*(file.read_text("utf-8") for file in sorted(Path(__file__).parent.glob("*.py"))))
