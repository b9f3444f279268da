"""Ranking of attempts by their current verdicts."""

from collections.abc import Iterable

from agent.records import Attempt, Evaluation, RunFinished, Status


def better(best: Attempt | None, other: Attempt) -> Attempt | None:
    """Return the better of the best so far and a newer attempt, or None if neither is verified.

    An attempt verified on CUDA at full shapes outranks every other scope. Next, a scope that exercised every
    kernel of the real sizes outranks one that did not. Next, a measured time outranks an unknown one, and a
    time wins if it is lower beyond measurement noise. Ties go to the older attempt.
    """
    if other.evaluation.status is not Status.VERIFIED:
        return best
    return other if best is None or _outranks(other.evaluation, best.evaluation) else best


def best_of(attempts: Iterable[Attempt], finished: RunFinished | None) -> Attempt | None:
    """Return the attempt that a finished run named best, or the best so far of an unfinished run."""
    if finished is not None:
        return next((attempt for attempt in attempts if attempt.number == finished.best), None)
    best: Attempt | None = None
    for attempt in attempts:
        best = better(best, attempt)
    return best


def _outranks(other: Evaluation, best: Evaluation) -> bool:
    if _on_target(other) != _on_target(best):
        return _on_target(other)
    if bool(other.scope.unexercised) != bool(best.scope.unexercised):
        return not other.scope.unexercised
    return other.measurement is not None and other.measurement.beats(best.measurement)


def _on_target(evaluation: Evaluation) -> bool:
    return evaluation.scope.executor == "cuda" and evaluation.scope.shapes == "full"
