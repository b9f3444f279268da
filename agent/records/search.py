"""What a search asks for next, and what it has used up."""

from typing import Literal

from agent.records.base import Record

PolicyName = Literal["line", "beam", "evolve"]
"""How it is chosen what is asked next."""

ConfirmPolicy = Literal["best", "end", "none"]
"""Kernels of a run on a GPU that get a second look: each new best, the final best, or none."""

APPROACH = "Approach to try: "
"""What an idea begins with, where it stands in a prompt."""


class Move(Record):
    """The next question: which earlier rounds it goes on from, and what it suggests."""

    after: int | None = None
    """The round whose line of rounds it goes on with; None for a line of its own."""
    beside: int | None = None
    """A round whose kernel is shown as well, to be combined with that of `after`."""
    idea: str = ""
    """An approach to try, in words for the model; empty where it may choose."""
    plan: bool = False
    """Whether it asks for ideas and not for a kernel."""
    island: int = 0
    """Part of the search that it belongs to; 0 where there is one."""


class Spent(Record):
    """What a run has used; money is None where no price is known. Judging counts on a GPU alone."""

    rounds: int = 0
    tokens: int = 0
    """Asked and answered. An answer without a count counts as the most that it can have been, where a limit
    bounds it."""
    cost_usd: float | None = None
    seconds: float = 0.0
    """By the clock, over all processes that have carried the run."""
    gpu_seconds: float = 0.0
    """Judging on a GPU, second looks included, builds and waiting included."""
