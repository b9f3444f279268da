"""Verdicts in a few words, always with their scope."""

from agent.records import Attempt, Evaluation, Scope, Status

_WITHDRAWN = ", withdrawn by its second look"


def brief(attempt: Attempt) -> str:
    """Return the verdict on an attempt in a few words, such as `verified (GPU, 2.10x)` or `incorrect`.

    A verified verdict names its scope and says if it is unconfirmed. A refusal by a second look is marked as
    withdrawn.
    """
    return told(attempt.evaluation)


def told(evaluation: Evaluation) -> str:
    """Return the verdict of an evaluation in a few words, as `brief` does for an attempt."""
    if evaluation.status is not Status.VERIFIED:
        return f"{evaluation.status}{_WITHDRAWN if evaluation.withdrawn else ''}"
    return scoped(evaluation.scope, evaluation.measurement.speedup if evaluation.measurement else None)


def scoped(scope: Scope, speedup: float | None) -> str:
    """Return the text of a verified verdict with this scope, such as `verified (emulator, shrunken)`."""
    words = ["GPU" if scope.executor == "cuda" else "emulator", *scope.limits]
    words += [f"{speedup:.2f}x"] if speedup is not None else []
    return f"verified ({', '.join(words)})"
