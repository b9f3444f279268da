"""Who wrote each word of global memory, noted where it is asked for and nowhere else."""

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from device_library import DEVICE, Array, Device


class Cell(NamedTuple):
    launch: int
    block: int
    thread: int
    times: int
    several: bool
    atomic: bool


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "writers.cu", checked=True)


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    built.runtime.kw_check(1)
    built.runtime.kw_note_writers(1)
    yield built
    built.runtime.kw_note_writers(0)
    built.runtime.kw_check(0)


def writers(device: Device, out: Array) -> list[Cell]:
    cells = (ctypes.c_uint64 * (out.nbytes // 4))()
    device.runtime.kw_writers(out.ctypes.data, out.nbytes, cells)
    return [
        Cell(c >> 52, c >> 28 & 0xFFFFFF, c >> 18 & 0x3FF, c >> 4 & 0x3FFF, bool(c & 2), bool(c & 1))
        for c in cells
    ]


def test_the_block_the_thread_and_its_turn_are_those_of_the_last_store(device: Device) -> None:
    out = device.empty(300)
    device.call("run_strided", out, 290)
    found = writers(device, out)
    assert [cell[:4] for cell in found[:290]] == [(1, i // 64 % 2, i % 64, i // 128) for i in range(290)]
    assert all(cell.launch == 0 for cell in found[290:])
    assert not any(cell.several or cell.atomic for cell in found)


def test_launches_are_counted(device: Device) -> None:
    out, other = device.empty(300), device.empty(300)
    device.call("run_strided", other, 300)
    device.call("run_strided", out, 100)
    assert {cell.launch for cell in writers(device, other)} == {1}
    assert [cell.launch for cell in writers(device, out)] == [2] * 100 + [0] * 200
    wrote = [device.runtime.kw_writers(t.ctypes.data, t.nbytes, None) for t in (out, other)]
    assert wrote == [100, 0], "of the last launch alone"


def test_two_threads_that_write_one_word_are_seen(device: Device) -> None:
    out = device.empty(1)
    device.call("run_shared_word", out)
    [cell] = writers(device, out)
    assert cell.several
    assert cell.thread == int(out[0])


def test_atomic_writes_are_told_apart(device: Device) -> None:
    out = device.array([0], "int32")
    device.call("run_counted", out)
    [cell] = writers(device, out)
    assert cell.atomic
    assert cell.several
    assert int(out[0]) == 2


def test_a_vector_is_one_store_of_four_words(device: Device) -> None:
    out = device.empty(8)
    device.call("run_vectors", out)
    assert [cell[:4] for cell in writers(device, out)] == [(1, 0, i // 4, 0) for i in range(8)]


def test_nothing_is_noted_where_nobody_asked(device: Device) -> None:
    device.runtime.kw_note_writers(0)
    out = device.empty(300)
    device.call("run_strided", out, 300)
    assert all(cell.launch == 0 for cell in writers(device, out))


def test_memory_that_is_no_allocation_has_no_writers(device: Device) -> None:
    out = device.empty(4)
    device.call("run_strided", out, 4)
    cells = (ctypes.c_uint64 * 64)()
    assert device.runtime.kw_writers(out.ctypes.data, 1 << 20, cells) == 0
