"""Fields that the emulator adds to every answer of the candidate's process; see `worker_answers`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CodePlace:
    library: str
    offset: int


@dataclass(frozen=True)
class DeviceFinding:
    """One finding of the emulator's runtime, with the fields that findings.cpp writes."""

    kind: str
    message: str
    kernel: str | None
    line: int | None
    block: tuple[int, int, int] | None
    thread: tuple[int, int, int] | None
    count: int
    severity: Literal["error", "warning"]
    place: CodePlace | None
    other: CodePlace | None


@dataclass(frozen=True)
class Device:
    """Fields that the emulator adds to every answer: launches so far, and findings of its sanitizer."""

    launches: int
    device_findings: list[DeviceFinding]
