"""`agent config`: every setting, its value and where it came from."""

from urllib.parse import urlsplit

from pydantic import SecretStr
from rich import box
from rich.table import Table
from rich.text import Text

from agent import config as settings
from agent.cli import console
from agent.records import SCHEMA_VERSION


def config(
    json: console.Json = False, verbose: console.Verbose = False, quiet: console.Quiet = False
) -> None:
    """Show every setting, its value and its origin.

    Keys are masked. -v says what each setting is for.
    """
    resolved = settings.load({}, offline=True)
    if resolved.redirect:
        console.warn(f"{resolved.redirect}; until then no endpoint is asked")
    values = {name: _spell(getattr(resolved.settings, name)) for name in settings.Settings.model_fields}
    if json:
        rows = {name: {"value": value, "origin": resolved.origin(name)} for name, value in values.items()}
        console.emit_json({"schema_version": SCHEMA_VERSION, "settings": rows})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("setting", "value", "origin"):
        table.add_column(column, overflow="fold")
    for name, value in values.items():
        field = settings.Settings.model_fields[name]
        label = Text(name)
        if console.is_verbose() and field.description:
            label.append(f"\n{field.description}", style="dim")
        table.add_row(label, "-" if value is None else console.line(str(value)), resolved.origin(name))
    console.show(table)


def _spell(value: object) -> object:
    """The value as it may be shown: a key by its last four characters, a URL without user and password."""
    if isinstance(value, SecretStr):
        key = value.get_secret_value()
        return f"...{key[-4:]}" if len(key) >= 16 else "..."
    if isinstance(value, str) and "@" in value and "://" in value:
        parts = urlsplit(value)
        return parts._replace(netloc=f"...@{parts.netloc.rpartition('@')[2]}").geturl()
    return value if isinstance(value, int | float | None) else str(value)
