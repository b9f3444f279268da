"""Whether a problem is admitted: decided before anything is asked of a model, once for each problem.

The probes run in a process of the reference's (`agent.harness.probing`), at sizes that a CPU affords. A
problem that lets a wrong answer pass is tightened by further families of inputs; one that still does is
refused.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from agent import config
from agent.errors import ProblemError
from agent.harness.job import ORACLE_LIMIT_S, affordable, secret_seed
from agent.harness.kept import kept
from agent.problems import Shrunken
from agent.records import Admission, Problem
from agent.records.base import digest
from agent.sandbox import Child, ChildFault

VERSION = "2"
"""Part of the cache's key: another number where probes or comparator change."""


def probed(problem: Problem, shrink: Callable[[], Shrunken], cache_dir: Path) -> Admission:
    """What the probes found; from the cache where this problem was probed before.

    Raises ProblemError where the reference itself fails.
    """
    file = cache_dir / "admission" / f"{digest(problem.source, VERSION)[:32]}.json"
    return kept(file, Admission, lambda: _probe(problem, shrink()))


def check(problem: Problem, found: Admission, anyway: bool) -> Admission:
    """The admission to judge with. Raises ProblemError for a problem that lets wrong answers pass."""
    if not found.survivors:
        return found
    if anyway:
        return found.model_copy(update={"anyway": True})
    listed = "; ".join(found.survivors[:3]) + ("; ..." if len(found.survivors) > 3 else "")
    raise ProblemError(
        f"{problem.name}: {len(found.survivors)} of {found.tried} wrong answers would be verified "
        f"({listed}): its inputs or its output cannot tell them from right ones; change get_inputs or the "
        "model, or give --admit-anyway"
    )


def _probe(problem: Problem, shrunken: Shrunken) -> Admission:
    if not affordable(shrunken.trace):
        return Admission(note="not probed: its sizes cannot be scaled to what a CPU affords")
    with tempfile.TemporaryDirectory(prefix="kernelwright-admission-") as name:
        source = Path(name) / "reference.py"
        source.write_text(shrunken.source, encoding="utf-8")
        argv = [sys.executable, "-P", "-m", "agent.harness.oracle", str(source), name, "cpu", "-"]
        environment = config.child_environment()
        environment["PYTHONPATH"] = config.with_package(environment)
        with Child(argv, cwd=Path.cwd(), env=environment) as oracle:
            try:
                answer = oracle.ask({"do": "probe", "seed": secret_seed()}, ORACLE_LIMIT_S)
            except ChildFault as fault:
                raise ProblemError(f"{problem.name}: the reference {fault}") from None
    if "error" in answer:
        raise ProblemError(f"{problem.name}: the reference failed: {answer['error']}")
    return Admission.model_validate(answer)
