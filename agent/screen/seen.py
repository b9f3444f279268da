"""One place where a rule of the screen was broken."""

from typing import NamedTuple

from agent.records import Severity


class Seen(NamedTuple):
    kind: str
    message: str
    line: int | None = None
    severity: Severity = "error"
