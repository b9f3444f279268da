"""Renders the section "Export format" of docs/viewer.md: `python -m tests.store.export_format`."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from agent.records import SCHEMA_VERSION
from agent.store.export import RunDocument

PAGE = Path(__file__).parent.parent.parent / "docs" / "viewer.md"
HEADING = "## Export format"

_INTRODUCTION = f"""\
`agent show RUN --json` prints one JSON document, schema version {SCHEMA_VERSION}: everything that the
run's folder holds, and beside it what follows from that. With `--round N` it has that round alone. Texts
are whole and as they came: what a model or a candidate wrote is data, and nothing of it was stripped.
Times are UTC, durations seconds, what is unknown is `null` and never 0; a number that JSON does not know
stands as `"inf"`, `"-inf"` or `"nan"`. Later versions add fields; runs of earlier ones are exported in
this shape.

The document is a *RunDocument*; each table is one kind of object.
"""


def render(page: str) -> str:
    """The page with the section as the records have it now; appended where the page has none."""
    start = page.find(HEADING)
    if start < 0:
        return f"{page.rstrip()}\n\n{section()}"
    following = page.find("\n## ", start)
    rest = page[following:] if following >= 0 else ""
    return f"{page[:start]}{section()}{rest}"


def section() -> str:
    """The whole section, with its heading and a newline at its end."""
    parts = [HEADING, "", _INTRODUCTION]
    for name, schema in objects().items():
        if "properties" not in schema:
            continue
        parts += [f"### {name}", "", _sentence(schema.get("description", "")), "", *_table(schema), ""]
    return "\n".join(parts)


@cache
def objects() -> dict[str, dict[str, Any]]:
    """The schema of every kind of object in the document, the document first, then in the order of use."""
    root = RunDocument.model_json_schema(mode="serialization")
    definitions = root.pop("$defs")
    found = {"RunDocument": root}
    pending = [root]
    while pending:
        for reference in re.findall(r"'#/\$defs/(\w+)'", repr(pending.pop(0).get("properties", {}))):
            if reference not in found:
                found[reference] = definitions[reference]
                pending.append(definitions[reference])
    return found


def _table(schema: dict[str, Any]) -> list[str]:
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for name, field in schema["properties"].items():
        rows.append(f"| `{name}` | {_spell(field)} | {_sentence(field.get('description', ''))} |")
    return rows


def _spell(field: dict[str, Any]) -> str:
    """A type as a person says it: `list of Message`, `number or null`."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        meant = objects()[name]
        return f"[{name}](#{name.lower()})" if "properties" in meant else _spell(meant)
    if "anyOf" in field:
        return " or ".join(_spell(option) for option in field["anyOf"])
    if "const" in field or "enum" in field:
        return _values(field.get("enum", [field.get("const")]))
    match field.get("type"):
        case "array" if "prefixItems" in field:
            return f"{len(field['prefixItems'])} × {_spell(field['prefixItems'][0])}"
        case "array":
            return f"list of {_spell(field['items'])}"
        case "object":
            return f"map to {_spell(field['additionalProperties'])}"
        case "string" if field.get("format") == "date-time":
            return "time"
        case None:
            return "any JSON"
        case known:
            return str(known)


def _values(values: list[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _sentence(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Looking at runs\n"
    PAGE.write_text(render(before), encoding="utf-8")
