"""A verdict in a few words, always with its scope."""

from agent.records import Attempt, Evaluation, Scope, Status

_WITHDRAWN = ", withdrawn by its second look"


def brief(attempt: Attempt) -> str:
    """`incorrect`, `verified (emulator, shrunken)`, `verified (GPU, 2.10x)`: always with its scope.

    What no second look has confirmed yet is said to be so, and what one refused to be withdrawn.
    """
    return told(attempt.evaluation)


def told(evaluation: Evaluation) -> str:
    """The same of the verdict alone."""
    if evaluation.status is not Status.VERIFIED:
        return f"{evaluation.status}{_WITHDRAWN if evaluation.withdrawn else ''}"
    return scoped(evaluation.scope, evaluation.measurement.speedup if evaluation.measurement else None)


def scoped(scope: Scope, speedup: float | None) -> str:
    """`verified (emulator, shrunken)`, for something that was verified in that scope."""
    words = ["GPU" if scope.executor == "cuda" else "emulator", *scope.limits]
    words += [f"{speedup:.2f}x"] if speedup is not None else []
    return f"verified ({', '.join(words)})"
