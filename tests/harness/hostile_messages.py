"""Documents that a hostile process might write: made from the records of the messages, then spoilt."""

import copy
import dataclasses
import json
import types
import typing
from typing import Any, cast

from hypothesis import strategies as st

from agent.sandbox import messages

Documents = st.SearchStrategy[Any]
WORDS = [
    "",
    "many",
    "build",
    "tensor",
    "list",
    "dict",
    "value",
    "float32",
    "out",
    "a\0b",
    "\ud800",
    "\\",
    "9" * 500,
]
NUMBERS = [0, 1, -1, 3, 64, 1 << 31, 1 << 45, (1 << 64) - 1, -(1 << 63), 1 << 64, 10**400]
TEXT = st.sampled_from(WORDS) | st.text(max_size=8)
INTEGERS = st.sampled_from(NUMBERS) | st.integers(0, 8)
FLOATS = st.floats() | st.sampled_from([0.0, 1.5, 1e308])
LAUNCH_WORDS = st.sampled_from(
    [
        "grid ({0}, 1, 1) and block (0, {0}, 1): no size may be 0",
        "block ({0}, {0}, {0}) has {0} threads; the limit is 1024 threads (x and y up to 1024, z up to 64)",
        "grid ({0}, 1, {0}); the limits are x 1, y 2 and z 3",
        "{0} bytes of dynamic shared memory; a block cannot have more than {0}",
    ]
).flatmap(lambda words: st.sampled_from(["1", "0", "70000", "9" * 900, "9" * 5000]).map(words.format))
KINDS = st.sampled_from(["illegal-launch", "race"])


def _leaf() -> Documents:
    return st.none() | st.booleans() | INTEGERS | FLOATS | TEXT | LAUNCH_WORDS


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


PLAIN = st.recursive(
    _leaf(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TREES = st.recursive(
    st.integers(0, 2).map(lambda n: ["tensor", n]) | _leaf().map(lambda value: ["value", value]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: ["list", items])
        | st.lists(st.tuples(TEXT, inner).map(list), max_size=2).map(lambda items: ["dict", items])
    ),
    max_leaves=4,
)
TENSORS = st.builds(
    lambda to, dtype, sizes: {"tensor": [to, dtype, sizes, sizes]},
    INTEGERS, st.sampled_from(["float32", "int8", "bool", "none"]), st.lists(INTEGERS, max_size=3),
)  # fmt: skip
LITERALS = st.sampled_from(["", "00", "00000000", None]).map(
    lambda data: {"literal": data, "dtype": "float32", "shape": [1]}
)
ODD = st.sampled_from([1200, 70, 20]).map(_deep) | PLAIN


def of(kind: Any) -> Documents:
    """Documents that are mostly right for the type of a field."""
    arguments = typing.get_args(kind)
    origin: Any = typing.get_origin(kind)
    if kind is Any:
        return TREES | TENSORS | LITERALS | PLAIN
    if origin in (typing.Union, types.UnionType):
        several = sum(map(dataclasses.is_dataclass, arguments)) > 1
        return st.one_of([_tagged(option) if several else of(option) for option in arguments])
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is list:
        return st.lists(of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, of(arguments[1]), max_size=3)
    if origin is tuple:
        return st.tuples(*map(of, arguments)).map(list)
    if dataclasses.is_dataclass(kind):
        fields = {key: _field(key, hint) for _, key, hint in messages._fields(cast(Any, kind))}
        return st.fixed_dictionaries(fields)
    return {bool: st.booleans(), int: INTEGERS, float: FLOATS, str: TEXT, type(None): st.none()}[kind]


def _field(key: str, hint: Any) -> Documents:
    """A field by its name where values of its type alone would hardly ever be read further."""
    known: dict[str, Documents] = {
        "message": LAUNCH_WORDS | TEXT, "kind": KINDS | of(hint), "stem": st.just("out"), "tree": TREES,
        "entry": st.just(["/built/extension.so", 64]), "words": st.just([]), "dtype": st.just("float32"),
        "arguments": st.sampled_from(["", "00" * 16]) if hint is str else of(hint),
    }  # fmt: skip
    return known[key] if key in known else of(hint)


def _tagged(kind: Any) -> Documents:
    return of(kind).map(lambda document: {messages.TAG: messages.tag(kind)} | document)


@st.composite
def spoilt(draw: st.DrawFn, documents: Documents) -> Any:
    """A document with up to two of its parts replaced, left out or added."""
    document = copy.deepcopy(draw(documents))  # parts of it are drawn again for other documents
    for _ in range(draw(st.integers(0, 2))):
        places = list(_places(document))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "drop", "add"]))
        if change == "replace":
            holder[key] = draw(ODD)
        elif change == "drop":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(TEXT | st.sampled_from(["request", "error", "launches", "held"]))] = draw(ODD)
        else:
            holder.append(draw(ODD))
    return document


def _places(document: Any, levels: int = 6) -> typing.Iterator[tuple[Any, Any]]:
    keys: Any = (
        document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    )
    for key in keys:
        yield document, key
        if levels:
            yield from _places(document[key], levels - 1)


@st.composite
def lines(draw: st.DrawFn, documents: Documents) -> bytes:
    """A line that holds such a document, at times cut or with bytes of something else."""
    line = _dumped(draw(spoilt(documents)))
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.binary(max_size=4)) + line[at + draw(st.integers(0, 4)) :]
    return line.replace(b"\n", b" ")


def _dumped(document: Any) -> bytes:
    """Also of what is deeper than Python writes."""
    try:
        return json.dumps(document).encode()
    except RecursionError:
        return b"[" * 100_000 + b"]" * 100_000
