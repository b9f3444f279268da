"""Next step of a search, and the resources that the search has used."""

from typing import Literal

from agent.records.base import Record

PolicyName = Literal["line", "beam", "evolve"]
"""Name of the policy that chooses the next prompt."""

ConfirmPolicy = Literal["best", "end", "none"]
"""Choice of the kernels of a GPU run that get a second look: each new best, the final best, or none."""

APPROACH = "Approach to try: "
"""Prefix of an idea in a prompt."""


class Move(Record):
    """Plan of the next prompt: the earlier rounds that it builds on, and an approach to suggest."""

    after: int | None = None
    """Round that the prompt continues from; None to begin a new line of rounds."""
    beside: int | None = None
    """Round whose kernel the prompt shows too, to be combined with the kernel of `after`."""
    idea: str = ""
    """Approach to try, in words for the model; empty if the model may choose."""
    plan: bool = False
    """True if the prompt asks for ideas instead of a kernel."""
    island: int = 0
    """Index of the island (separately evolved part of the search) of the prompt; 0 if there is only one."""


class Spent(Record):
    """Resources that a run has used. `cost_usd` is None if no price is known."""

    rounds: int = 0
    tokens: int = 0
    """Tokens sent and received. An answer whose tokens were not counted counts as its maximum length, if a
    limit bounds its length."""
    cost_usd: float | None = None
    seconds: float = 0.0
    """Wall-clock seconds over all processes that have carried the run."""
    gpu_seconds: float = 0.0
    """Seconds of judging on a GPU, including second looks, builds and waiting; 0 on the emulator."""
