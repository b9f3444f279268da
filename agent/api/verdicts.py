"""A verdict in a few words, always with its scope."""

from agent.records import Attempt, Scope, Status


def brief(attempt: Attempt) -> str:
    """`incorrect`, `verified (emulator, shrunken)`, `verified (GPU, 2.10x)`: always with its scope."""
    evaluation = attempt.evaluation
    if evaluation.status is not Status.VERIFIED:
        return str(evaluation.status)
    return scoped(evaluation.scope, evaluation.measurement.speedup if evaluation.measurement else None)


def scoped(scope: Scope, speedup: float | None) -> str:
    """`verified (emulator, shrunken)`, for something that was verified in that scope."""
    words = ["GPU" if scope.executor == "cuda" else "emulator", *scope.limits]
    words += [f"{speedup:.2f}x"] if speedup is not None else []
    return f"verified ({', '.join(words)})"
