"""An event and its line: exact both ways, and every damage has a reason."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import LONG, PROBLEM, STARTED, completion

from agent.records import EVENT, Completed, Event, Operation
from agent.store.lines import BLOB_CHARS, Blobs, UnreadableLine, decode, encode, skip_text


def there_and_back(event: Event) -> Event:
    kept: dict[str, str] = {}

    def keep(text: str) -> str:
        kept[str(len(kept))] = text
        return str(len(kept) - 1)

    line = encode(event, keep)
    assert line.isascii()
    assert line.count(b"\n") == 1
    return decode(line, kept.__getitem__)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(1, 1500))
def test_any_text_comes_back_as_it_was(text: str, times: int) -> None:
    event = Completed(round=1, prompt_id="p", completion=completion(text * times))
    assert there_and_back(event) == event


@pytest.mark.parametrize(
    "attributes",
    [
        {"$blob": "0" * 64, "chars": 2000},
        {"$float": "nan"},
        {"$$blob": {"$": [{"$blob": LONG}]}, "$": None},
        {"value": [float("inf"), 0.1, -0.0, 1e308, True, 2**70, "Infinity"]},
    ],
)
def test_attributes_come_back_even_when_they_look_like_ours(attributes: dict[str, object]) -> None:
    operation = Operation.model_validate(
        {
            "op": "fill",
            "overload": "o",
            "inputs": (),
            "outputs": (),
            "attributes": attributes,
            "flops": 0,
            "bytes": 0,
        }
    )
    trace = PROBLEM.trace.model_copy(update={"operations": (operation,)})
    event = STARTED.model_copy(update={"problem": PROBLEM.model_copy(update={"trace": trace})})
    assert there_and_back(event) == event


def test_a_line_is_strict_json_even_with_infinities() -> None:
    trace = PROBLEM.trace.model_copy(update={"init_inputs": (float("-inf"),)})
    event = STARTED.model_copy(update={"problem": PROBLEM.model_copy(update={"trace": trace})})

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(encode(event, lambda text: "0"), parse_constant=refuse)
    assert there_and_back(event) == event


def test_long_text_becomes_a_blob_and_short_text_stays(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    event = Completed(round=1, prompt_id="p", completion=completion("a" * BLOB_CHARS, reasoning="b" * 1001))
    line = encode(event, blobs.keep)
    assert b"a" * BLOB_CHARS in line
    reasoning = json.loads(line)["completion"]["reasoning"]
    assert reasoning["chars"] == 1001
    assert (tmp_path / "blobs" / reasoning["$blob"]).read_text() == "b" * 1001
    assert decode(line, blobs.fetch) == event


def test_a_text_is_stored_once_and_left_alone(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    address = blobs.keep(LONG)
    before = (tmp_path / address).stat()
    assert blobs.keep(LONG) == address
    assert (tmp_path / address).stat().st_ino == before.st_ino
    assert [path.name for path in tmp_path.iterdir()] == [address]


def test_a_half_written_blob_is_written_again(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    address = blobs.keep(LONG)
    (tmp_path / address).write_text("half")
    assert blobs.fetch(blobs.keep(LONG)) == LONG


def test_missing_and_damaged_blobs_have_their_reason(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    address = blobs.keep(LONG)
    (tmp_path / address).write_text(LONG.upper())
    with pytest.raises(UnreadableLine, match="damaged"):
        blobs.fetch(address)
    (tmp_path / address).unlink()
    with pytest.raises(UnreadableLine, match="missing"):
        blobs.fetch(address)


@pytest.mark.parametrize("address", ["../secret", "/etc/passwd", "", "A" * 64, "0" * 63])
def test_an_address_cannot_lead_out_of_the_folder(tmp_path: Path, address: str) -> None:
    (tmp_path / "secret").write_text("no")
    (tmp_path / "blobs").mkdir()
    with pytest.raises(UnreadableLine, match="no blob address"):
        Blobs(tmp_path / "blobs").fetch(address)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b'{"kind": "prompted", "rou', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"kind": "confused"}', "no event"),
        (b'{"kind": "prompted", "round": 1}', "prompted.prompt: Field required"),
        (b'{"kind": "prompted", "schema_version": 99, "new": 1}', "newer version"),
    ],
)
def test_a_line_that_is_no_event_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(UnreadableLine, match=reason):
        decode(line, skip_text)


def test_without_texts_the_short_ones_remain(tmp_path: Path) -> None:
    event = Completed(round=1, prompt_id="p", completion=completion("short", reasoning=LONG))
    read = decode(encode(event, Blobs(tmp_path).keep), skip_text)
    assert read == EVENT.validate_python(
        event.model_copy(update={"completion": completion("short", reasoning="")}).model_dump()
    )
