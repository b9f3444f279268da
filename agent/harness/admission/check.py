"""Admission of a problem, decided once per problem before any candidate is judged.

A probe is a known wrong answer, compared like a candidate's. Probes run in a reference process
(`agent.harness.mutation.mutation_testing`), at sizes that a CPU can afford. A problem that lets a wrong
answer pass gets further families of inputs. If a wrong answer still
passes, the problem is refused.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from agent import config, problems
from agent.errors import ProblemError
from agent.harness.disk_cache import Waiting, cached, code_digest, read
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle
from agent.harness.messages.oracle_client import ORACLE, OracleClient
from agent.harness.task.job import secret_seed
from agent.problems import Shrunken, affordable
from agent.records import Admission, Problem
from agent.records.base import digest
from agent.sandbox import Child, ProcessServer

VERSION = "3"
"""Version of the comparator and of most problems' draws.

A change makes all verified kernels be judged again.
"""
_PROBES = "agent.harness.mutation.mutation_testing"


def probed(
    problem: Problem,
    shrink: Callable[[], Shrunken],
    cache_dir: Path,
    server: Callable[[], ProcessServer | None] = lambda: None,
    waiting: Waiting = lambda: None,
) -> Admission:
    """Return the result of the problem's probes, from the cache if it was probed before.

    `server` returns the fork server for the probing process, if one is needed. `waiting` is called before a
    wait for another process that probes the same problem. Raises ProblemError if the reference itself fails.
    """
    file = _file(problem, cache_dir)
    return cached(file, Admission, lambda: _probe(problem, shrink(), server()), waiting)


def is_known(problem: Problem, cache_dir: Path) -> bool:
    """Return True if the cache holds this problem's probe results."""
    return read(_file(problem, cache_dir), Admission) is not None


def check(problem: Problem, found: Admission, anyway: bool) -> Admission:
    """Return `found`, marked if `anyway` admits a problem that lets wrong answers pass.

    Raises ProblemError for a problem that lets wrong answers pass, without `anyway`.
    """
    if not found.survivors:
        return found
    if anyway:
        return found.model_copy(update={"anyway": True})
    listed = "; ".join(found.survivors[:3]) + ("; ..." if len(found.survivors) > 3 else "")
    raise ProblemError(
        f"{problem.name}: {len(found.survivors)} of {found.tried} wrong answers would be verified "
        f"({listed}): its inputs or its output cannot distinguish them from correct ones; change get_inputs "
        "or the model, or pass --admit-anyway"
    )


def _file(problem: Problem, cache_dir: Path) -> Path:
    return cache_dir / "admission" / f"{digest(problem.source, version('torch'), _code())[:32]}.json"


@cache
def _code() -> str:
    """Return a digest of the code that runs the probes and of the code that shrinks the problem's sizes."""
    return digest(code_digest(_PROBES), problems.code())


def _probe(problem: Problem, shrunken: Shrunken, server: ProcessServer | None) -> Admission:
    if not affordable(shrunken.trace):
        return Admission(note="not probed: its sizes cannot be scaled to what a CPU affords")
    with tempfile.TemporaryDirectory(prefix="kernelwright-admission-") as name:
        source = Path(name) / "reference.py"
        source.write_text(shrunken.source, encoding="utf-8")
        argv = [sys.executable, "-P", "-m", ORACLE, str(source), name, "cpu", "-"]
        environment = config.child_environment()
        environment["PYTHONPATH"] = config.with_package(environment)
        with Child(argv, env=environment, server=server) as oracle:
            answer = OracleClient(oracle, problem.name).ask(to_oracle(oracle_commands.Probe(secret_seed())))
    return Admission.model_validate(answer)
