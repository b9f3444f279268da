"""Objects of single translation units, cached by their inputs.

An object depends only on its unit's text, its flags and the prepared toolchain. If only device code changed,
the host unit's object is taken from the cache. The compiler's messages are cached with the object. A unit
that does not compile is not cached.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from agent.build import compiler
from agent.build.toolchain import Toolchain
from agent.records import Record, digest

_DIRECTORY = "objects"
_DIAGNOSTICS = (
    "-fmax-errors=20", "-fno-diagnostics-show-caret", "-ftemplate-backtrace-limit=6",
    "-fdiagnostics-color=never",
)  # fmt: skip


class Unit(Record):
    """Translation unit for g++, which is compiled to `{name}.o`."""

    name: str
    text: str
    flags: tuple[str, ...]
    """Flags including the prelude; the toolchain adds include directories and the message format."""

    @property
    def identity(self) -> str:
        """Digest of everything that determines the object, except the toolchain."""
        return digest(self.name, *self.flags, self.text)


class _Entry(Record):
    """Record stored beside a cached file: the compiler's messages, and the file's size in bytes."""

    messages: str
    size: int


def cached_file(cache: Path, key: str, name: str, scratch: Path) -> str | None:
    """Copy the cached file `name` to `scratch` and return its messages, or None if it is not cached."""
    place = cache / _DIRECTORY / key
    try:
        entry = _Entry.model_validate_json((place / "entry.json").read_text())
        shutil.copyfile(place / name, scratch / name)
    except (OSError, ValidationError):
        return None
    return entry.messages if (scratch / name).stat().st_size == entry.size else None


def keep_file(cache: Path, key: str, made: Path, messages: str) -> None:
    """Cache a file under `key`, atomically, even if several processes write it at once."""
    parent = cache / _DIRECTORY
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix="writing-"))
    kept = compiler.take(made, scratch / made.name)
    entry = _Entry(messages=messages, size=kept.stat().st_size)
    (scratch / "entry.json").write_text(entry.model_dump_json())
    try:
        # A damaged entry is replaced. One that another process has just written is equivalent.
        shutil.rmtree(parent / key, ignore_errors=True)
        scratch.rename(parent / key)
    except OSError:
        shutil.rmtree(scratch, ignore_errors=True)


class Compilation:
    """Compilation of one build's units to objects in `scratch`."""

    def __init__(self, toolchain: Toolchain, units: Sequence[Unit], scratch: Path, cache: Path) -> None:
        self._toolchain, self._units = toolchain, units
        self._scratch, self._cache = scratch, cache
        found = [cached_file(cache, self._key(unit), f"{unit.name}.o", scratch) for unit in units]
        self._cached = [None if words is None else compiler.Outcome(True, words) for words in found]

    def commands(self) -> list[list[str]]:
        """Write each unit that is not cached to the scratch directory, and return its command."""
        made = []
        for unit, cached in zip(self._units, self._cached, strict=True):
            if cached is None:
                source = self._scratch / f"{unit.name}.cpp"
                source.write_text(unit.text, encoding="utf-8", errors="surrogatepass")
                made.append(self._command(unit))
        return made

    def outcomes(self, of_commands: Sequence[compiler.Outcome]) -> list[compiler.Outcome]:
        """Return the outcome of each unit, given those of `commands`, and cache the new objects."""
        new = iter(of_commands)
        found = []
        for unit, cached in zip(self._units, self._cached, strict=True):
            outcome = cached or next(new)
            if cached is None and outcome.succeeded:
                made = self._scratch / f"{unit.name}.o"
                keep_file(self._cache, self._key(unit), made, outcome.messages)
            found.append(outcome)
        return found

    def _command(self, unit: Unit) -> list[str]:
        return [
            str(self._toolchain.gxx), *unit.flags, *self._toolchain.includes(), *_DIAGNOSTICS,
            "-c", f"{unit.name}.cpp", "-o", f"{unit.name}.o",
        ]  # fmt: skip

    def _key(self, unit: Unit) -> str:
        return digest(self._toolchain.key, unit.identity)[:32]
