"""Which attempt is better. Compares verdicts that stand; measures and decides nothing else."""

from collections.abc import Iterable

from agent.records import Attempt, Evaluation, RunFinished, Status


def better(best: Attempt | None, other: Attempt) -> Attempt | None:
    """The better of the best so far and a newer attempt; None as long as nothing is verified.

    Verified on CUDA at full shapes outranks every other verified scope, and among the others one that leaves
    out no kernel of the real sizes one that does. Within that a measured time outranks an unknown one, and
    another time wins where it is lower beyond doubt. Ties go to the older.
    """
    if other.evaluation.status is not Status.VERIFIED:
        return best
    return other if best is None or _outranks(other.evaluation, best.evaluation) else best


def best_of(attempts: Iterable[Attempt], finished: RunFinished | None) -> Attempt | None:
    """The attempt that the run named best at its end; for a run without an end, what ranking says so far."""
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
