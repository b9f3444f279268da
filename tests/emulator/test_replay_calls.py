"""The records of several calls: which are alike, what one of them needs, what the host passes to it."""

import json
from typing import Any

from agent.emulator.replay import calls, events, host_words, program
from agent.emulator.replay.calls import Segment
from agent.torch_shim.streams import SIDE_STREAMS

W, ROOM = 1 << 45, (1 << 45) + 4096
Event = dict[str, Any]


def allocate(to: int, size: int = 128) -> Event:
    return {"do": "allocate", "to": to, "bytes": size}


def launch(*words: int, name: str = "k") -> Event:
    arguments = b"".join(word.to_bytes(8, "little") for word in words).hex()
    return {
        "do": "launch", "entry": ["/built/extension.so", 64], "name": name, "line": 3, "grid": [1, 1, 1],
        "block": [32, 1, 1], "shared": 0, "cooperative": False, "cluster": [0, 0, 0],
        "arguments": arguments, "words": [],
    }  # fmt: skip


def operator(name: str, *arguments: Any) -> Event:
    return {
        "do": "operator", "name": name, "overload": "default", "arguments": list(arguments), "keywords": {},
        "results": [], "line": 7,
    }  # fmt: skip


def tensor(address: int) -> Event:
    return {"tensor": [address, "float32", [4, 8], [8, 1]]}


def call(number: int, *done: Event, new: bool = False) -> Segment:
    """A call whose input and output have addresses of their own."""
    x = place(number)
    state = [allocate(W), {"do": "given", "what": "state", "index": 0, "to": W, "bytes": 128}]
    given = {"do": "given", "what": "inputs", "index": 0, "to": x, "bytes": 128}
    before = [*(state if new else []), allocate(x), given, allocate(x + 4096)]
    lines = [*before, *done, {"do": "outputs", "tensors": [tensor(x + 4096)]}]
    return calls.segment("\n".join(map(json.dumps, lines)))


def place(number: int) -> int:
    return (1 << 45) + (number + 1) * (1 << 20)


def test_calls_with_other_addresses_behave_alike_and_others_are_told_apart() -> None:
    one, other = (call(n, launch(place(n)), operator("clone", tensor(place(n)))) for n in (0, 1))
    third = call(2, launch(place(2)), launch(place(2), name="l"), operator("gelu", tensor(place(2))))

    assert calls.behaviour(one) == calls.behaviour(other)
    apart = calls.difference(calls.behaviour(third), calls.behaviour(one))
    assert apart == "l is launched once and not never; torch's gelu runs as well"


def test_words_are_counted_that_differ_whatever_way_they_come() -> None:
    def with_value(number: int, value: int) -> Segment:
        x = place(number)
        write = {"do": "write", "to": x + 4096, "bytes": 8, "data": f"{value:02x}" * 4 + "00" * 4}
        fill = {"do": "fill", "to": x + 4096 + value, "bytes": 1, "data": f"{value:02x}"}
        return call(
            number, launch(x, x + 4096, value, (1 << 46) + value), write, fill,
            operator("fill_", tensor(x), value / 2),
        )  # fmt: skip

    segments = [with_value(0, 5), with_value(1, 6), with_value(2, 5)]

    # Two of the launch, one of the copy, place and byte of the fill, the operator's scalar.
    assert host_words.passed(segments, 0, [1]) == 6
    assert host_words.passed(segments, 0, [2]) == 0
    assert host_words.passed(segments, 0, [1, 2]) == 6


def test_the_stream_that_the_judge_chose_is_no_word_and_two_of_them_in_a_call_are() -> None:
    def on(number: int, *streams: int) -> Segment:
        return call(number, *(launch(place(number), stream) for stream in streams))

    one, other = SIDE_STREAMS
    assert host_words.passed([on(0, one, one), on(1, other, other)], 0, [1]) == 0
    assert host_words.passed([on(0, one, other), on(1, other, one)], 0, [1]) == 2


def test_sizes_of_memory_are_words_for_they_decide_how_far_apart_addresses_lie() -> None:
    def with_sizes(number: int, *sizes: int) -> Segment:
        at = [place(number) + 8192 * n for n in range(1, len(sizes) + 1)]
        return call(number, *map(allocate, at, sizes), launch(place(number)))

    segments = [with_sizes(0, 64, 70, 64, 90), with_sizes(1, 64, 71, 64, 91), with_sizes(2, 64, 70, 64, 90)]
    assert host_words.passed(segments, 0, [1]) == 2
    assert host_words.passed(segments, 0, [2]) == 0
    # A workspace that one of them makes besides is no word.
    assert host_words.passed([segments[0], with_sizes(1, 512, 64, 70, 64, 90)], 0, [1]) == 0
    assert host_words.passed([with_sizes(0, 512, 64, 70, 64, 90), segments[2]], 0, [1]) == 0


def test_what_no_other_call_has_counts_whole() -> None:
    segments = [call(0, launch(place(0), 7)), call(1, launch(place(1), 7), launch(place(1), 7, name="l"))]

    # Three of the grid, three of the block, shared memory, an address and two words.
    assert host_words.passed(segments, 0, []) == 10
    assert host_words.passed(segments, 1, [0]) == 10
    assert host_words.passed(segments, 0, [1]) == 0


def test_a_call_needs_what_fills_caches_and_nothing_of_the_calls_between() -> None:
    kept = launch(ROOM)
    segments = [
        call(0, allocate(ROOM), kept, new=True),
        call(1, launch(place(1), name="between")),
        call(2, launch(ROOM, name="chosen")),
    ]

    few, all_of_them, none = (calls.alone(segments, 2, earlier=earlier) for earlier in calls.EARLIER)

    assert [event.name for event in none if isinstance(event, events.Launch)] == ["chosen"]
    assert ROOM in {event.to for event in none if isinstance(event, events.Allocate)}
    assert [event.name for event in few if isinstance(event, events.Launch)] == ["k", "chosen"]
    names = [event.name for event in all_of_them if isinstance(event, events.Launch)]
    assert names == ["k", "between", "chosen"]
    made = {event.to for event in few if isinstance(event, events.Allocate)}
    assert ROOM in made
    assert place(1) not in made
    given = [event for event in few if isinstance(event, events.Given) and event.what == "inputs"]
    assert [event.to for event in given] == [place(2)]
    assert len([event for event in few if isinstance(event, events.Outputs)]) == 1


def test_kinds_of_calls_are_told_by_what_is_no_place() -> None:
    flagged = [call(n, launch(place(n), n == 1), new=n == 0) for n in range(3)]
    allocated = host_words.memory(flagged)
    first, other, third = (host_words.by_value(segment.call, allocated) for segment in flagged)
    assert first == third != other


def test_slots_of_a_workspace_are_places_that_move_within_memory_kept() -> None:
    moving = [call(n, launch(place(n), W + 8 * n), new=n == 0) for n in range(2)]
    allocated = host_words.memory(moving)
    first, second = (host_words.kept_places(segment.call, allocated) for segment in moving)
    assert [place[-1] for place in first] == [0]
    assert [place[-1] for place in second] == [8]


def test_a_record_tells_where_inputs_end_within_memory_that_has_room_around_them() -> None:
    given = {"do": "given", "what": "inputs", "index": 0, "to": ROOM + 512, "bytes": 100}
    lines = [allocate(W), allocate(ROOM, 1024), given, launch(ROOM + 512, W)]
    segment = calls.segment("\n".join(map(json.dumps, lines)))
    known = {"/built/extension.so": (0, {64})}
    read = program.read([*segment.before, *segment.call], known, "none")
    assert read.pieces == [range(W, W + 128), range(ROOM + 512, ROOM + 612)]
