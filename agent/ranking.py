"""Which attempt is better. Compares verdicts that stand; measures and decides nothing else."""

from math import inf

from agent.records import Attempt, Status


def better(best: Attempt | None, other: Attempt) -> Attempt | None:
    """The better of the best so far and a newer attempt; None as long as nothing is verified.

    Verified on CUDA at full shapes outranks every other verified scope; within that the lower median time
    wins, an unknown time being the highest. Ties go to the older.
    """
    if other.evaluation.status is not Status.VERIFIED:
        return best
    return other if best is None or _rank(other) > _rank(best) else best


def _rank(attempt: Attempt) -> tuple[bool, float]:
    evaluation = attempt.evaluation
    on_target = evaluation.scope.executor == "cuda" and evaluation.scope.shapes == "full"
    measured = evaluation.measurement
    return (on_target, -measured.candidate_ms.p50 if measured else -inf)
