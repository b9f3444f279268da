"""Messages between processes are read and written strictly."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from agent.records import Finding
from agent.sandbox import messages
from agent.sandbox.messages import Malformed


@dataclass(frozen=True)
class Spot:
    x: int
    y: float | None


@dataclass(frozen=True)
class FarAway:
    why: Literal["night", "fog"]


@dataclass(frozen=True)
class Look:
    spots: list[Spot]
    named: dict[str, tuple[int, str]]
    found: Spot | FarAway
    source: bool = field(metadata={"key": "from"})
    rest: Any
    more: tuple[int, ...]
    finding: Finding | None


LOOK = Look(
    spots=[Spot(1, None), Spot(2, 0.5)], named={"a": (1, "b")}, found=FarAway("fog"), source=True,
    rest={"any": [1, None]}, more=(1, 2), finding=Finding(kind="k", message="m"),
)  # fmt: skip
DOCUMENT: dict[str, Any] = messages.written(LOOK, Look)


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_written_reads_back() -> None:
    assert DOCUMENT["found"] == {"do": "far_away", "why": "fog"}
    assert DOCUMENT["from"] is True
    assert DOCUMENT["spots"] == [{"x": 1, "y": None}, {"x": 2, "y": 0.5}]
    assert messages.decoded(json.dumps(DOCUMENT), Look) == LOOK
    assert messages.read(DOCUMENT, Look, finite=True) == LOOK
    assert messages.read(DOCUMENT | {"do": "look"}, Look | Spot) == LOOK


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": None}, r"\.more: a list is expected"),
        ({"extra": 1}, "look has the unknown extra"),
        ({"spots": [{"x": 1}]}, r"\.spots\[0\]: spot lacks y"),
        ({"spots": [{"x": True, "y": None}]}, r"\.spots\[0\]\.x: a whole number is expected, not bool"),
        ({"spots": [{"x": 1 << 70, "y": None}]}, "at most 64 bits"),
        ({"spots": [{"x": 1, "y": "2"}]}, r"\.y"),
        ({"spots": {"x": 1, "y": 2}}, "a list is expected, not dict"),
        ({"named": {"a": [1]}}, r"\.named\['a'\]: a list of 2"),
        ({"named": []}, "an object is expected"),
        ({"found": {"x": 1, "y": 2.0}}, r"\.found\.do: one of spot, far_away is expected"),
        ({"found": {"do": ["spot"], "x": 1, "y": 2.0}}, r"\.found\.do"),
        ({"found": {"do": "far_away", "why": "snow"}}, r"\.why: one of night, fog"),
        ({"from": 1}, r"\.from: true or false is expected, not int"),
        ({"rest": deep(100)}, "nested too deeply"),
        ({"more": ["1"]}, r"\.more\[0\]: a whole number"),
        ({"finding": {"kind": "k", "message": "m", "count": "many"}}, r"\.finding: no Finding"),
        ({"finding": 3}, r"\.finding"),
    ],
)
def test_what_is_not_as_its_type_says_is_malformed(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        messages.read(DOCUMENT | change, Look)


@pytest.mark.parametrize("line", ["", "{", "[" * 2000, "null", "[]", '{"do": 1}', "1" * 5000])
def test_what_is_no_message_is_malformed(line: str) -> None:
    with pytest.raises(Malformed):
        messages.decoded(line, Look)


def test_numbers_may_have_to_be_finite() -> None:
    document = {"x": 1, "y": float("nan")}
    assert messages.read(document, Spot).x == 1
    for bad in (document, {"x": 1, "y": json.loads("1e999")}):
        with pytest.raises(Malformed, match="not finite"):
            messages.read(bad, Spot, finite=True)


def test_the_writer_is_as_strict() -> None:
    with pytest.raises(Malformed, match=r"\.x: a whole number"):
        messages.written(Spot("1", None), Spot)  # type: ignore[arg-type]
