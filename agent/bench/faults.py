"""Faults that left a task of a bench without a verdict through no fault of its own, one line each."""

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from agent.records import Record
from agent.store.disk import writing

FILE = "faults.jsonl"
FaultEnding = Literal["refused", "unsolved", "failed"]
"""Endings without a verdict. `refused`: no valid problem; `unsolved`: the provider has nothing for it.

These two endings are final. A `failed` task is tried again when the bench is resumed.
"""


class Fault(Record):
    label: str
    ending: FaultEnding
    reason: str


def note(bench: Path, fault: Fault) -> None:
    """Append a fault. Raises EnvironmentFault if the disk refuses."""
    with writing(bench), (bench / FILE).open("a", encoding="utf-8") as file:
        file.write(fault.model_dump_json() + "\n")


def read(bench: Path) -> dict[str, Fault]:
    """Return the latest fault of each task. Skips a line that a crash cut off."""
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
