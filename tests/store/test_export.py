"""The export format: documented field by field, whole, and the same after a round trip."""

import importlib
import json
import re
from pathlib import Path

from pydantic_core import to_jsonable_python
from transcripts import SETTINGS, Answers, Judge, converse

from agent.records import SCHEMA_VERSION
from agent.store import Run, create, export, history

format_ = importlib.import_module("store.export_format")
FIXTURE = Path(__file__).parent / "fixtures" / "schema-1-extended"


def documented() -> dict[str, list[str]]:
    """The fields of each object, as the page lists them."""
    page = format_.PAGE.read_text(encoding="utf-8")
    section = page[page.index(format_.HEADING) :].split("\n## ")[0]
    found: dict[str, list[str]] = {}
    for line in section.splitlines():
        if heading := re.fullmatch(r"### (\w+)", line):
            fields = found.setdefault(heading[1], [])
        elif row := re.match(r"\| `(\w+)` \|", line):
            fields.append(row[1])
    return found


def test_every_field_is_documented_and_no_other() -> None:
    """After a change of the records: `python -m tests.store.export_format` writes the section anew."""
    schemas = {name: schema for name, schema in format_.objects().items() if "properties" in schema}
    assert documented() == {name: list(schema["properties"]) for name, schema in schemas.items()}
    page = format_.PAGE.read_text(encoding="utf-8")
    assert page == format_.render(page)


def test_rendering_leaves_the_rest_of_the_page_alone() -> None:
    page = f"# Page\n\ntext\n\n{format_.HEADING}\n\nold\n\n## After\n\nmore\n"
    rendered = format_.render(page)
    assert rendered.startswith("# Page\n\ntext\n\n## Export format\n")
    assert rendered.endswith("\n## After\n\nmore\n")
    assert "\nold\n" not in rendered
    assert format_.render(rendered) == rendered


def test_the_document_reads_back_as_the_record_it_was() -> None:
    run = Run(FIXTURE, "fixture")
    log = run.read()
    document = export.document(run, log, history.build_history(log))
    text = json.dumps(to_jsonable_python(document, inf_nan_mode="strings"))
    assert export.RunDocument.model_validate_json(text).rounds[0].attempts == document.rounds[0].attempts
    assert document.schema_version == SCHEMA_VERSION
    assert document.problem == log.started.problem if log.started else False


def test_what_follows_from_the_events_stands_beside_them(tmp_path: Path) -> None:
    run = Run(FIXTURE, "fixture")
    log = run.read()
    document = export.document(run, log, history.build_history(log))
    first, second = document.rounds
    broken, mended = first.attempts
    assert (mended.made_from, mended.change) == (broken.number, history.Change(added=1, removed=1))
    assert mended.candidate.parent == broken.id
    assert mended.speedup == 2.0
    assert document.totals.cost_usd == 0.0125
    assert (second.attempts, second.rejected is not None) == ((), True)
    assert (document.began, document.last) == (log.events[0].time, log.events[-1].time)


def test_a_run_without_a_manifest_or_events_is_a_document_too(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    (run.path / "run.toml").write_text("?")
    document = export.document(run, run.read(), history.build_history(run.read()))
    assert (document.run, document.problem, document.rounds) == (None, None, ())
    with run.writer() as writer:
        converse(Answers(), Judge(), writer)
    log = run.read()
    assert len(export.document(run, log, history.build_history(log)).rounds) == 4
