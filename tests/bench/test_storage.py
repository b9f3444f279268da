"""Documents of measured rows: one line for each row, and the same content when read."""

import json
from pathlib import Path

from benchmarks import storage

DOCUMENT = {
    "date": "2026-11-29",
    "machine": {"gpu": "H200", "nvcc": None},
    "rows": [{"case": "wrong", "seconds": {"median": 3.41, "p90": 3.5}, "said": "µs"}] * 3,
    "seconds": {f"problem {number}": number / 3 for number in range(20)},
    "none": [],
}


def test_a_row_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.json"
    storage.write(path, DOCUMENT)
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == DOCUMENT
    assert text.count('\n  {"case": "wrong", "seconds": {"median": 3.41, "p90": 3.5}, "said": "µs"}') == 3
    assert '\n  "problem 1": 0.3333333333333333,\n' in text
    assert '\n "machine": {"gpu": "H200", "nvcc": null},\n' in text
    assert [file.name for file in path.parent.iterdir()] == ["rows.json"]


def test_the_recorded_documents_have_this_form() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in storage.RESULTS.rglob("*.json")}
    assert texts
    assert [path.name for path, text in texts.items() if text != storage.text(json.loads(text))] == []
