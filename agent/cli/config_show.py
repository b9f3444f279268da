"""`agent config`: show every setting, its value and its origin."""

from urllib.parse import urlsplit

from pydantic import SecretStr

from agent import config as settings
from agent.cli import columns, console
from agent.records import SCHEMA_VERSION


def config(
    json: console.Json = False, verbose: console.Verbose = False, quiet: console.Quiet = False
) -> None:
    """Show every setting, its value and its origin.

    API keys are masked. -v adds a description of each setting.
    """
    resolved = settings.load({}, offline=True)
    if resolved.redirect:
        console.warn(f"{resolved.redirect}; until then no endpoint is called")
    values = {name: _spell(getattr(resolved.settings, name)) for name in settings.Settings.model_fields}
    if json:
        document = {name: {"value": value, "origin": resolved.origin(name)} for name, value in values.items()}
        console.emit_json({"schema_version": SCHEMA_VERSION, "settings": document})
        return
    rows: list[tuple[str, ...]] = [
        (name, "-" if value is None else console.line(str(value)), console.line(resolved.origin(name)))
        for name, value in values.items()
    ]
    heading: tuple[str, ...] = ("setting", "value", "origin")
    if console.is_verbose():
        heading = (*heading, "description")
        fields = settings.Settings.model_fields
        rows = [(*row, fields[row[0]].description or "") for row in rows]
    console.show_lines(columns.lines(heading, rows, console.stdout().width))


def _spell(value: object) -> object:
    """Return the value without secrets: a key's last four characters, a URL without user and password."""
    if isinstance(value, SecretStr):
        key = value.get_secret_value()
        return f"...{key[-4:]}" if len(key) >= 16 else "..."
    if isinstance(value, str) and "@" in value and "://" in value:
        parts = urlsplit(value)
        return parts._replace(netloc=f"...@{parts.netloc.rpartition('@')[2]}").geturl()
    return value if isinstance(value, int | float | None) else str(value)
