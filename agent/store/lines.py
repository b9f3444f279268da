"""Conversion between an event and one line of events.jsonl, with long texts stored as blobs.

A line is strict ASCII JSON. A text longer than BLOB_CHARS becomes `{"$blob": sha256, "chars": n}`, and a
float that JSON lacks becomes `{"$float": "-inf"}`. A key of the data that begins with `$` gets a second `$`.
Decoding returns exactly the encoded event.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agent.records import EVENT, Event, misfit
from agent.store.disk import write_durably
from agent.store.migrations import NewerVersion, upgrade

BLOB_CHARS = 1000

_SHA256 = re.compile(r"[0-9a-f]{64}")


class UnreadableLine(ValueError):
    """Error for a line that holds no event; the message gives the reason in a few words."""


class Blobs:
    """Store of texts by the sha256 of their UTF-8. A stored text is never written twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, text: str) -> str:
        """Write the text to disk and return its address. Raises OSError."""
        # Answers can hold lone surrogates (a JSON escape cut in two), which are preserved.
        content = text.encode("utf-8", "surrogatepass")
        address = hashlib.sha256(content).hexdigest()
        path = self._folder / address
        if not path.is_file() or path.stat().st_size != len(content):
            self._folder.mkdir(exist_ok=True)
            write_durably(path, content)
        return address

    def fetch(self, address: str) -> str:
        """Return the text at `address`. Raises UnreadableLine if it is missing or damaged."""
        # The address may come from a file by someone else, so it must not point outside the folder.
        if not _SHA256.fullmatch(address):
            raise UnreadableLine(f"{address[:80]!r} is no blob address")
        try:
            content = (self._folder / address).read_bytes()
        except OSError as error:
            raise UnreadableLine(f"blob {address[:12]} is missing ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != address:
            raise UnreadableLine(f"blob {address[:12]} is damaged")
        return content.decode("utf-8", "surrogatepass")


def skip_text(address: str) -> str:
    """Return an empty text. Replaces `Blobs.fetch` where long texts are not needed."""
    return ""


def encode(event: Event, keep: Callable[[str], str]) -> bytes:
    """Encode the event as a line with its newline. `keep` stores a long text and returns its address."""
    value = _pack(event.model_dump(mode="json"), keep)
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes, fetch: Callable[[str], str]) -> Event:
    """Decode the event of one line. `fetch` is the inverse of `keep`. Raises UnreadableLine."""
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise UnreadableLine(f"not JSON ({error})") from error
    except RecursionError as error:
        raise UnreadableLine("nested too deeply") from error
    if not isinstance(raw, dict):
        raise UnreadableLine("not a JSON object")
    try:
        return EVENT.validate_python(upgrade(_unpack_fields(raw, fetch)))
    except NewerVersion as error:
        raise UnreadableLine(str(error)) from error
    except ValidationError as error:
        raise UnreadableLine(f"no event ({misfit(error)})") from error


def _pack(value: JsonValue, keep: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str) and len(value) > BLOB_CHARS:
        return {"$blob": keep(value), "chars": len(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, list):
        return [_pack(item, keep) for item in value]
    if isinstance(value, dict):
        return {f"${key}" if key.startswith("$") else key: _pack(item, keep) for key, item in value.items()}
    return value


def _unpack(value: JsonValue, fetch: Callable[[str], str]) -> JsonValue:
    if isinstance(value, list):
        return [_unpack(item, fetch) for item in value]
    if not isinstance(value, dict):
        return value
    if "$blob" in value:
        return fetch(str(value["$blob"]))
    if "$float" in value:
        try:
            return float(str(value["$float"]))
        except ValueError as error:
            raise UnreadableLine(str(error)) from error
    return _unpack_fields(value, fetch)


def _unpack_fields(fields: dict[str, JsonValue], fetch: Callable[[str], str]) -> dict[str, JsonValue]:
    return {key.removeprefix("$"): _unpack(item, fetch) for key, item in fields.items()}
