"""A broken rule of the screen and its place."""

from typing import NamedTuple

from agent.records import Severity


class Seen(NamedTuple):
    kind: str
    message: str
    line: int | None = None
    severity: Severity = "error"
