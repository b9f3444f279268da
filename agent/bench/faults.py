"""Why a task of a bench has no verdict although nothing of its own is to blame: one line each, appended."""

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from agent.records import Record
from agent.store.disk import writing

FILE = "faults.jsonl"
FaultEnding = Literal["refused", "unsolved", "failed"]
"""`refused`: the problem is none. `unsolved`: the provider has nothing for it. Both are final; a task that
`failed` is tried again by whoever resumes the bench."""


class Fault(Record):
    label: str
    ending: FaultEnding
    reason: str


def note(bench: Path, fault: Fault) -> None:
    """Raises EnvironmentFault where the disk refuses."""
    with writing(bench), (bench / FILE).open("a", encoding="utf-8") as file:
        file.write(fault.model_dump_json() + "\n")


def read(bench: Path) -> dict[str, Fault]:
    """The last word on each task; a line that was cut off by a crash is passed over."""
    found: dict[str, Fault] = {}
    try:
        lines = (bench / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    for line in lines:
        try:
            fault = Fault.model_validate(json.loads(line))
        except (ValueError, ValidationError):
            continue
        found[fault.label] = fault
    return found
