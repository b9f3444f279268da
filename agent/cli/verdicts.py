"""Short descriptions of attempts, shared by the commands that show runs."""

from agent.api.verdicts import brief, scoped, told
from agent.cli import console
from agent.records import Location, Measurement, Status

__all__ = ["STYLES", "brief", "place", "scoped", "times", "told"]

STYLES = {Status.VERIFIED: "green", Status.UNSUPPORTED: "yellow"}
"""Colour of each status; all others are red."""


def times(measurement: Measurement) -> str:
    """Return median, spread, GPU, speedup with baseline, and roofline share; unknown parts are left out."""
    candidate = measurement.candidate_ms
    text = f"{candidate.p50:.4g} ms (p20 {candidate.p20:.4g}, p80 {candidate.p80:.4g}) on {measurement.gpu}"
    if measurement.speedup is not None:
        text += f", {measurement.speedup:.2f}x against {measurement.baseline}"
    if measurement.roofline_fraction is not None:
        text += f", {measurement.roofline_fraction:.0%} of the roofline"
    return text


def place(location: Location) -> str:
    """Return text such as `line 12, kernel add, block (0, 0, 3), thread (31, 0, 0)`."""
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
