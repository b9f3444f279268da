"""References: find one, read it, trace it, make it smaller, and say how fast it could be.

Contract: `load` gives a Problem or raises ProblemError with one line that names file and line. Nothing of a
reference runs in this process: tracing happens in a time-limited child, and importing this package imports no
torch.
"""

from pathlib import Path

from agent.problems import child, finding
from agent.problems.finding import names, path
from agent.problems.lowering import lowered
from agent.problems.planning import affordable, few_draws
from agent.problems.roofline import GPUS, Gpu, floor_ms
from agent.problems.shrinking import MAX_ELEMENTS, MAX_MACS, Shrunken, hard_coded, shrink
from agent.records import Problem

__all__ = [
    "GPUS", "MAX_ELEMENTS", "MAX_MACS", "Gpu", "Shrunken", "affordable", "few_draws", "floor_ms",
    "hard_coded", "load", "lowered", "names", "path", "shrink",
]  # fmt: skip


def load(address: str, *, kernelbench_root: Path | None = None, time_limit_s: float = 60) -> Problem:
    """The reference at `address`, read and traced; takes seconds whatever its shapes.

    `time_limit_s` bounds what the reference itself may take. Raises ProblemError where the address leads to
    no reference or the reference raises, hangs or exits; EnvironmentFault where no tracer can be started.
    """
    file = path(address, kernelbench_root)
    source = finding.source(file)
    return Problem(name=finding.name(file), source=source, trace=child.trace(source, str(file), time_limit_s))
