"""What comes back as files is the candidate's process's to write, or not to."""

import socket
from pathlib import Path

import pytest
import torch
from harness.cpu_segment import CpuSegment

from agent.harness.messages.oracle_commands import Claims
from agent.harness.oracle import batched_calls, transport
from agent.harness.oracle.transport import Excepted, Files
from agent.harness.worker import wire

CLAIMS = Claims([], [], [], written_bands=[], gone=None, sent_back="after")


def changed(folder: Path, x: torch.Tensor) -> list[str]:
    return list(Files(folder).changed([x], [], {}, CLAIMS, Excepted(set(), [])))


def test_other_bytes_are_a_change(tmp_path: Path) -> None:
    x = torch.randn(3, 5)
    for returned, found in ((x, []), (x + 1, ["input"]), (x[:2], ["input"])):
        wire.dump([returned], tmp_path, "after-input")
        assert changed(tmp_path, x) == found


def test_an_earlier_output_may_change_where_the_references_lies_in_an_input(tmp_path: Path) -> None:
    earlier = [torch.randn(3, 5), torch.randn(4)]
    wire.dump([tensor + 1 for tensor in earlier], tmp_path, "after-output")
    cases: list[tuple[list[list[str]], int]] = [([["input"]] * 2, 0), ([["input"], []], 1), ([[], []], 2)]
    for shared, found in cases:
        excepted = Excepted({"input"}, shared)
        assert list(Files(tmp_path).changed([], earlier, {}, CLAIMS, excepted)) == ["earlier output"] * found


def test_a_file_that_does_not_come_back_is_a_breach_and_no_fault_of_the_judge(tmp_path: Path) -> None:
    with pytest.raises(wire.WireError, match="missing"):
        changed(tmp_path, torch.randn(3, 5))


@pytest.mark.parametrize("what", ["draw", "row"])
def test_memory_is_handed_over_without_what_the_oracle_had_there(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def hand_over(segment: CpuSegment, target: socket.socket) -> None:
        seen.append(bool((segment.raw(0, segment.size) == 255).all()))

    monkeypatch.setattr(CpuSegment, "hand_over", hand_over)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    for module in (transport, batched_calls):
        monkeypatch.setattr(module, "Segment", CpuSegment)
    ours, theirs = socket.socketpair()
    x = torch.randn(3, 5)
    with theirs:
        memory = transport.SharedMemory([ours.detach()])
        if what == "draw":
            memory.give([x], x, {}, stem="", in_place=False)
        else:
            memory.rows([x], x, least=1, most=3)
        memory._workers[0].close()
    assert seen == [True]


def test_inputs_change_their_address_and_take_their_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(transport, "Segment", CpuSegment)
    ours, theirs = socket.socketpair()
    x = torch.randn(300, 50)
    with theirs:
        memory = transport.SharedMemory([ours.detach()])
        given = [
            memory.give([x + number], x, {}, stem="", in_place=in_place)["inputs"]
            for number, in_place in enumerate((False, True, False, False))
        ]
        memory._workers[0].close()
    assert [description["mapping"] for description in given] == [0, 0, 1, 0]
    assert len({(one["segment"], one["tensors"][0]["offset"]) for one in given}) == 1
    assert given[0]["bytes"] < 4 * x.numel() * x.element_size()
    assert memory._hold([x + 3], memory._inputs)
    assert not memory._hold([x], memory._inputs)


def test_bytes_are_compared_to_the_last() -> None:
    for size in (0, 5, 8, 21):
        bytes_ = torch.arange(size, dtype=torch.uint8)
        assert transport._same_bytes(bytes_, bytes_.clone())
        for place in range(size):
            other = bytes_.clone()
            other[place] += 1
            assert not transport._same_bytes(bytes_, other)
