"""Time spent in the parts of an evaluation."""

from agent.records.base import Record


class Phase(Record):
    """Part of an evaluation, and its wall-clock time in seconds."""

    name: str
    seconds: float
