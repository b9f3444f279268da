"""Measured rows: the folder of each topic, and the form of their documents.

Pages in docs/ are rendered from these rows. They are kept apart from the pages, one line for each row.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COMPOSER = RESULTS / "composer"
DIAGNOSIS = RESULTS / "diagnosis"
FLEET = RESULTS / "fleet"
FOREIGN = RESULTS / "foreign"
GPU = RESULTS / "gpu"
INTEGRITY = RESULTS / "integrity"
VERDICT_TIMES = RESULTS / "verdict-times"
WIDTH = 110
"""Characters of a line above which a field is split into its entries."""


def text(document: Mapping[str, Any]) -> str:
    """Return the JSON of `document`: a line for each field, and for each entry of a long one."""
    fields = [f"{_json(name)}: {_value(value)}" for name, value in document.items()]
    return "{\n " + ",\n ".join(fields) + "\n}\n"


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write the document whole or not at all, so that an interrupted run can continue from it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text(document), encoding="utf-8")
    part.replace(path)


def _value(value: Any) -> str:
    whole = _json(value)
    if len(whole) <= WIDTH or not isinstance(value, list | dict):
        return whole
    begin, end = whole[0], whole[-1]
    return begin + "\n  " + ",\n  ".join(_entries(value)) + f"\n {end}"


def _entries(value: list[Any] | dict[str, Any]) -> Iterator[str]:
    if isinstance(value, list):
        return (_json(entry) for entry in value)
    return (f"{_json(name)}: {_json(entry)}" for name, entry in value.items())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
