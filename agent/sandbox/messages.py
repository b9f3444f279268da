"""Typed messages between processes: dataclasses as JSON, written and read with strict validation.

This file imports only the standard library, because candidates' processes run a copy of it.

The JSON of a dataclass has exactly its fields. A missing or unknown key, a value of another type, a number
out of bounds and JSON nested too deeply raise Malformed. If a field may hold one of several dataclasses, the
key `do` gives the class's name in snake case. A field may be a bool, int, float, str, None, list, dict with
str keys, tuple, Literal, dataclass, record with `model_validate`, a union of these, or Any. Any stands for
plain JSON of bounded depth. The key of a field is its name, or the `key` in its metadata.
"""

import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

MOST_NESTED = 64
"""Maximum nesting depth of JSON in a field of type Any."""
MOST_LEVELS = MOST_NESTED + 16
"""Maximum nesting depth of the JSON in a whole line."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
INTEGERS = range(-(1 << 63), 1 << 64)
TAG = "do"

Kind = Any
"""Type of a message or field as in an annotation: a class, `list[int]` or a union."""
Read = Callable[[Any], Any]


class Malformed(ValueError):
    """Exception raised if a message does not match its type; the text names the wrong field."""


def written(message: Any, kind: Kind) -> Any:
    """Return the message as JSON values. Raises Malformed if they cannot be read back as `kind`."""
    document = _plain(message, kind)
    reader(kind)(document)
    return document


def read(document: Any, kind: Kind, *, finite: bool = False) -> Any:
    """Return the message of type `kind` in JSON values.

    Raises Malformed; with `finite`, also for NaN and infinities.
    """
    for level in _levels(document, MOST_LEVELS) if finite else ():
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            raise Malformed(": a number that is not finite")
    return reader(kind)(document)


def decoded(line: str | bytes, kind: Kind) -> Any:
    """Return the message of type `kind` in one line of JSON text. Raises Malformed."""
    return reader(kind)(plain(line))


def plain(line: str | bytes) -> Any:
    """Return the JSON values in one line of untrusted text, with bounded depth and integers.

    Raises Malformed. An unpaired surrogate, which UTF-8 cannot encode, becomes a question mark.
    """
    try:
        text = line if isinstance(line, str) else line.decode("utf-8")
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {error}"[:200]) from None
    for level in _levels(document, MOST_LEVELS):
        if any(type(value) is int and value not in INTEGERS for value in level):
            raise Malformed(": a number of at most 64 bits is expected")
    if _SURROGATE.search(text):
        return json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    return document


def tag(kind: type) -> str:
    """Return the tag that tells a dataclass apart in a union: its name in snake case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


@cache
def reader(kind: Kind) -> Read:
    """Return a function that turns JSON values into a value of type `kind`, or raises Malformed."""
    origin: Any = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind is Any:
        return _any
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin is typing.Literal:
        return _literal(arguments)
    if _is_union(kind):
        return _union(arguments)
    if origin is list:
        return _list(reader(arguments[0]))
    if origin is dict and arguments[0] is str:
        return _dict(reader(arguments[1]))
    if origin is tuple:
        return _tuple(arguments)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, None)  # type: ignore[arg-type]
    if hasattr(kind, "model_validate"):
        return _record(kind)
    raise TypeError(f"no message has a field of type {kind}")


def _is_union(kind: Kind) -> bool:
    origin: Any = typing.get_origin(kind)
    return origin is typing.Union or origin is types.UnionType


def _expected(what: str, value: Any) -> Malformed:
    return Malformed(f": {what} is expected, not {type(value).__name__}")


def _scalar(kind: type, what: str) -> Read:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise _expected(what, value)
        return value

    return check


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise _expected("a whole number", value)
    if value not in INTEGERS:
        raise Malformed(": a number of at most 64 bits is expected")
    return value


def _number(value: Any) -> float:
    return value if type(value) is float else float(_integer(value))


def _any(value: Any) -> Any:
    list(_levels(value, MOST_NESTED))
    return value


def _levels(value: Any, most: int) -> Iterable[list[Any]]:
    """Yield the values at each nesting depth of JSON. Raises Malformed for more than `most` depths."""
    level = [value]
    while level:
        if not most:
            raise Malformed(": nested too deeply")
        yield level
        holders = [holder for holder in level if isinstance(holder, (dict, list))]
        level = [item for h in holders for item in (h.values() if isinstance(h, dict) else h)]
        most -= 1


_SCALARS: dict[Any, Read] = {
    bool: _scalar(bool, "true or false"),
    str: _scalar(str, "text"),
    type(None): _scalar(type(None), "null"),
    int: _integer,
    float: _number,
}


def _literal(values: tuple[Any, ...]) -> Read:
    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in values:
            raise Malformed(f": one of {', '.join(map(str, values))} is expected")
        return value

    return check


def _union(kinds: tuple[Any, ...]) -> Read:
    classes = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    named = {tag(kind): _dataclass(kind, tag(kind)) for kind in classes} if len(classes) > 1 else {}  # type: ignore[arg-type]
    others = [reader(kind) for kind in kinds if kind is not type(None) and not (named and kind in classes)]

    def check(value: Any) -> Any:
        if named and isinstance(value, dict):
            name = value.get(TAG)
            if not isinstance(name, str) or name not in named:
                raise Malformed(f".{TAG}: one of {', '.join(named)} is expected")
            return named[name](value)
        if value is None and type(None) in kinds:
            return None
        problems = []
        for option in others:
            try:
                return option(value)
            except Malformed as error:
                problems.append(error)
        raise problems[0] if len(problems) == 1 else _expected("another type", value)

    return check


def _list(item: Read) -> Read:
    def check(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _expected("a list", value)
        made = []
        for number, one in enumerate(value):
            try:
                made.append(item(one))
            except Malformed as error:
                raise Malformed(f"[{number}]{error}") from None
        return made

    return check


def _dict(item: Read) -> Read:
    def check(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _expected("an object", value)
        made = {}
        for key, one in value.items():
            try:
                made[key] = item(one)
            except Malformed as error:
                raise Malformed(f"[{str(key)[:40]!r}]{error}") from None
        return made

    return check


def _tuple(kinds: tuple[Any, ...]) -> Read:
    items = [reader(kind) for kind in kinds if kind is not ...]
    several = _list(items[0])

    def check(value: Any) -> tuple[Any, ...]:
        if kinds[-1] is ...:
            return tuple(several(value))
        if type(value) is not list or len(value) != len(items):
            raise _expected(f"a list of {len(items)}", value)
        return tuple(item(one) for item, one in zip(items, value, strict=True))

    return check


def _dataclass(kind: type, name: str | None) -> Read:
    fields = [(field, key, reader(hint)) for field, key, hint in _fields(kind)]
    known = {key for _, key, _ in fields} | ({TAG} if name else set())

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise _expected("an object", value)
        if value.keys() != known:
            missing, unknown = sorted(known - value.keys()), sorted(value.keys() - known)
            said = [f"lacks {', '.join(missing)}"] if missing else []
            said += [f"has the unknown {', '.join(unknown)[:100]}"] if unknown else []
            raise Malformed(f": {tag(kind)} {' and '.join(said)}")
        made = {}
        for field, key, take in fields:
            try:
                made[field] = take(value[key])
            except Malformed as error:
                raise Malformed(f".{key}{error}") from None
        return kind(**made)

    return check


def _record(kind: Any) -> Read:
    def check(value: Any) -> Any:
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise Malformed(f": no {kind.__name__}: {' '.join(str(error).split())[:200]}") from None

    return check


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return the name, JSON key and type of each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return tuple(
        (field.name, field.metadata.get("key", field.name), hints[field.name])
        for field in dataclasses.fields(kind)
    )


def _plain(value: Any, kind: Kind) -> Any:
    options = typing.get_args(kind) if _is_union(kind) else (kind,)
    if dataclasses.is_dataclass(value):
        fields = _fields(type(value))  # type: ignore[arg-type]
        document = {key: _plain(getattr(value, name), hint) for name, key, hint in fields}
        several = sum(dataclasses.is_dataclass(option) for option in options) > 1
        return {TAG: tag(type(value))} | document if several else document
    if isinstance(value, (list, tuple)):
        within = next((o for o in options if typing.get_origin(o) in (list, tuple)), list[Any])
        kinds = [option for option in typing.get_args(within) if option is not ...]
        return [_plain(item, kinds[min(n, len(kinds) - 1)]) for n, item in enumerate(value)]
    if isinstance(value, dict):
        of = next((typing.get_args(o)[1] for o in options if typing.get_origin(o) is dict), Any)
        return {key: _plain(item, of) for key, item in value.items()}
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
