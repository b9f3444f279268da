"""Next step of a search, and what the search has used up."""

from typing import Literal

from agent.records.base import Record

PolicyName = Literal["line", "beam", "evolve"]
"""Policy that chooses the next prompt."""

ConfirmPolicy = Literal["best", "end", "none"]
"""Kernels of a GPU run that get a second look: each new best, the final best, or none."""

APPROACH = "Approach to try: "
"""Prefix of an idea in a prompt."""


class Move(Record):
    """The next question: which earlier rounds it goes on from, and what it suggests."""

    after: int | None = None
    """The round whose line of rounds it goes on with; None for a line of its own."""
    beside: int | None = None
    """A round whose kernel is shown as well, to be combined with that of `after`."""
    idea: str = ""
    """An approach to try, in words for the model; empty where it may choose."""
    plan: bool = False
    """True if it asks for ideas instead of a kernel."""
    island: int = 0
    """Part of the search that it belongs to; 0 where there is one."""


class Spent(Record):
    """Resources that a run has used. Money is None if no price is known. Judging counts on a GPU alone."""

    rounds: int = 0
    tokens: int = 0
    """Tokens sent and received. An answer without a count counts as the maximum it can have had, if a limit
    bounds it."""
    cost_usd: float | None = None
    seconds: float = 0.0
    """Wall-clock seconds over all processes that have carried the run."""
    gpu_seconds: float = 0.0
    """Seconds of judging on a GPU. They include second looks, builds and waiting."""
