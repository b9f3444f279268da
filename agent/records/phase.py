"""Time spent in the parts of an evaluation."""

from agent.records.base import Record


class Phase(Record):
    """A part of an evaluation, and what it took by the clock."""

    name: str
    seconds: float
