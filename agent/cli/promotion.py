"""Selection of the attempt of a run that is to be shipped."""

from pathlib import Path

from agent import ranking, store
from agent.errors import UsageError
from agent.records import Attempt, Problem


def attempt_of(address: str, runs_dir: Path) -> tuple[str, Attempt, Problem]:
    """Return the run's address, the attempt named by `RUN:K` or else the best one, and the problem.

    Raises UsageError if K is not given and the run has no verified kernel, or if the run does not record its
    problem.
    """
    if ":" in address:
        run, attempt = store.resolve_attempt(address, runs_dir)
        log = run.read()
    else:
        run = store.open_run(address, runs_dir)
        log = run.read()
        best = ranking.best_of(log.attempts, log.finished)
        if best is None:
            raise UsageError(f"run {run.address} has no verified kernel to promote")
        attempt = best
    if log.started is None:
        raise UsageError(f"run {run.address} does not record its problem and cannot be promoted")
    return run.address, attempt, log.started.problem
