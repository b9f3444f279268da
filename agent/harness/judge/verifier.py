"""Which judge a verdict comes from: shipped kernels that an earlier one verified are audited anew."""

from agent.harness.admission import check

VERSION = "9"
"""Another number where a check or an attack is added to the judge."""


def version() -> str:
    """Of the judge and of what it probes problems with."""
    return f"{VERSION}.{check.VERSION}"
