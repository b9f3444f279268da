"""What a draw on a GPU finds in free memory."""

import struct
from typing import Any

import pytest
import torch

from agent.harness.messages import commands
from agent.harness.task.conditions import Dealer, fresh_word
from agent.harness.worker import memory_guards
from agent.harness.worker.worker_commands import ONES, Conditions
from agent.torch_shim import c_abi

DRAWN = {
    "inputs": {},
    "in_place": False,
    "stateful": False,
    "state": [],
    "state_bytes": [],
    "output_bytes": [],
}


def words(draws: int = 40) -> list[int]:
    dealer = Dealer()
    return [fresh_word(dealer.deal(checked=number == 0)) for number in range(draws)]


def as_float(word: int) -> float:
    (value,) = struct.unpack("<f", struct.pack("<I", word))
    return float(value)


def test_the_first_draw_finds_ones() -> None:
    assert words(1) == [ONES]


def test_any_five_draws_find_numbers_that_no_operation_leaves_out() -> None:
    """A maximum leaves out NaN and what is far below, a minimum what is far above, a sum what is tiny."""
    found = words(5)
    numbers = [as_float(word) for word in found]
    assert any(number > 1e28 for number in numbers)
    assert any(number < -1e28 for number in numbers)
    assert any(0 < word < 16 for word in found)
    assert len(set(found)) >= 4


def test_halves_of_a_word_are_huge_too() -> None:
    for seed in range(0, 1 << 14, 7):
        for memory, sign in ((c_abi.MEMORY_HUGE, 1), (c_abi.MEMORY_HUGE_NEGATIVE, -1)):
            word = fresh_word(Conditions(memory, c_abi.ORDER_FORWARD, seed, 0))
            (half,) = struct.unpack("<e", struct.pack("<H", word & 0xFFFF))
            assert sign * half > 1e4
            assert word >> 16 == word & 0xFFFF


def test_what_a_call_left_is_not_left_to_the_next() -> None:
    """It may be the result that the next one owes."""
    assert fresh_word(Conditions(c_abi.MEMORY_USED, c_abi.ORDER_FORWARD, 3, 0)) == ONES


def test_a_call_tells_its_process_the_word() -> None:
    dealt = Conditions(c_abi.MEMORY_LEAST, c_abi.ORDER_FORWARD, 4, 0)
    assert commands.call(DRAWN, "0-out", conditions=dealt)["fresh"] == fresh_word(dealt)
    assert commands.call(DRAWN, "0-out")["fresh"] == ONES


FREE = [
    {"segment_type": "large", "total_size": 32 << 20, "blocks": [
        {"size": 24 << 20, "state": "inactive"}, {"size": 8 << 20, "state": "active_allocated"}]},
    {"segment_type": "small", "total_size": 4 << 20, "blocks": [
        {"size": (2 << 20) + 512, "state": "inactive"}]},
]  # fmt: skip
"""As torch.cuda.memory_snapshot tells it; a small segment serves requests of up to 1 MiB."""


def test_memory_is_filled_with_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU's memory, which torch's allocator for a GPU is stood in by."""
    made: list[Any] = []
    full = torch.full

    def noted(shape: tuple[int, ...], value: int, *, dtype: Any, device: str) -> Any:
        assert device == "cuda"
        made.append(full(shape, value, dtype=dtype))
        return made[-1]

    monkeypatch.setattr(torch, "full", noted)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: FREE)
    for word in (ONES, 0xF123F123, 0x71237123, 5):
        made.clear()
        memory_guards.poison([10, 1 << 22], word)
        assert [block.nbytes for block in made[:2]] == [12, 1 << 22]
        assert all(block.numpy().view("uint32").min() == word for block in made)
        sizes = [block.nbytes for block in made[2:]]
        left = [24 << 20, 1 << 20, 1 << 20, 512]
        assert sizes[-len(left) :] == left, "what an earlier call left"
        del sizes[-len(left) :]
        assert sizes.count(512) == memory_guards.SMALL_BLOCKS
        assert sizes.count(memory_guards.POISONED_BLOCKS[-1]) == 1
