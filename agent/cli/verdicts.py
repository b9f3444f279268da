"""Short words for attempts, shared by the commands that show runs."""

from agent.cli import console
from agent.records import Attempt, Location, Measurement, Scope, Status

STYLES = {Status.VERIFIED: "green", Status.UNSUPPORTED: "yellow"}
"""Colour of a status; every other is red."""


def brief(attempt: Attempt) -> str:
    """`incorrect`, `verified (emulator, shrunken)`, `verified (GPU, 2.10x)`: always with its scope."""
    evaluation = attempt.evaluation
    if evaluation.status is not Status.VERIFIED:
        return str(evaluation.status)
    return scoped(evaluation.scope, evaluation.measurement.speedup if evaluation.measurement else None)


def scoped(scope: Scope, speedup: float | None) -> str:
    """`verified (emulator, shrunken)`, for something that was verified in that scope."""
    words = ["GPU" if scope.executor == "cuda" else "emulator"]
    words += [word for word in (scope.shapes, scope.protocol) if word in ("shrunken", "quick")]
    words += [f"{speedup:.2f}x"] if speedup is not None else []
    return f"verified ({', '.join(words)})"


def times(measurement: Measurement) -> str:
    """Median and spread, the speedup and what it is against; unknown parts are left out."""
    candidate = measurement.candidate_ms
    text = f"{candidate.p50:.4g} ms (p20 {candidate.p20:.4g}, p80 {candidate.p80:.4g}) on {measurement.gpu}"
    if measurement.speedup is not None:
        text += f", {measurement.speedup:.2f}x against {measurement.baseline}"
    if measurement.roofline_fraction is not None:
        text += f", {measurement.roofline_fraction:.0%} of the roofline"
    return text


def place(location: Location) -> str:
    """`line 12, kernel add, block (0, 0, 3), thread (31, 0, 0)`."""
    words = [
        f"{name} {value}"
        for name, value in (
            ("line", location.line),
            ("kernel", console.line(location.kernel) if location.kernel is not None else None),
            ("block", location.block),
            ("thread", location.thread),
        )
        if value is not None
    ]
    return ", ".join(words)
