"""Version of the judge behind a verdict: shipped kernels with an older version are audited again."""

from agent.harness.admission import check

VERSION = "10"
"""Version of the judge; raise it when a check or an attack is added."""


def version() -> str:
    """Return the version of the judge, joined with that of the admission's probes."""
    return f"{VERSION}.{check.VERSION}"
