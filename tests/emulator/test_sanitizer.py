"""Checked execution: what is found, where, and that correct kernels are left alone."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_library import DEVICE, Array, Device


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "sanitizer.cu", checked=True)


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    built.runtime.kw_check(1)
    yield built
    built.runtime.kw_check(0)
    built.reset()


def sized(device: Device, count: int) -> Array:
    return device.array(np.arange(count))


def found(device: Device) -> list[tuple[str, str, int | None]]:
    return [(finding["kind"], finding["severity"], finding["line"]) for finding in device.findings()]


def only(device: Device, kind: str, marker: str, severity: str = "error") -> dict[str, Any]:
    [finding] = device.findings()
    assert (finding["kind"], finding["severity"]) == (kind, severity), finding["message"]
    assert finding["line"] == device.line(marker), finding["message"]
    return finding


def test_write_past_the_end(device: Device) -> None:
    out = sized(device, 1000)
    device.call("wrong_no_guard", out)
    finding = only(device, "global-out-of-bounds-write", "no_guard")
    assert "Writes 4 bytes, 0 bytes past the end of an allocation of 4000 bytes" in finding["message"]
    assert (finding["block"], finding["thread"]) == ([3, 0, 0], [232, 0, 0])
    assert finding["count"] == 24
    assert finding["kernel"] == "no_guard"


def test_read_past_the_end_names_the_tensor(device: Device) -> None:
    x, out = sized(device, 50), sized(device, 64)
    device.runtime.kw_register(ctypes.c_void_p(x.ctypes.data), x.nbytes, b"float32 tensor [5, 10]")
    device.call("wrong_neighbour", x, out, 50)
    finding = only(device, "global-out-of-bounds-read", "neighbour")
    assert "0 bytes past the end of a float32 tensor [5, 10] (200 bytes)" in finding["message"]
    assert finding["thread"] == [49, 0, 0]


def test_read_before_the_start_inside_an_inlined_intrinsic(device: Device) -> None:
    device.call("wrong_before", sized(device, 32), sized(device, 32))
    finding = only(device, "global-out-of-bounds-read", "through")
    assert "4 bytes before the start of an allocation of 128 bytes" in finding["message"]


def test_a_vector_counts_its_width(device: Device) -> None:
    device.call("wrong_vector_tail", sized(device, 26 * 4 - 1), sized(device, 32))
    finding = only(device, "global-out-of-bounds-read", "vector_tail")
    assert finding["thread"] == [25, 0, 0]


def test_bounds_are_exact_to_the_byte(device: Device) -> None:
    out = device.array(np.zeros(13), "uint8")
    device.call("wrong_bytes", out, 13)
    assert device.findings() == []
    device.call("wrong_bytes", out, 14)
    only(device, "global-out-of-bounds-write", "bytes")


def test_memory_of_torch_has_bounds_too(device: Device) -> None:
    x = np.arange(50, dtype="float32")
    device.runtime.kw_register(ctypes.c_void_p(x.ctypes.data), x.nbytes, b"float32 tensor [50]")
    device.call("wrong_neighbour", x, sized(device, 64), 50)
    device.runtime.kw_unregister(ctypes.c_void_p(x.ctypes.data))
    only(device, "global-out-of-bounds-read", "neighbour")


def test_half_pairs_in_an_odd_tensor(device: Device) -> None:
    x, out = device.array(np.ones(63), "float16"), device.array(np.ones(32), "float16")
    device.call("wrong_half_pair", x, out, 32)
    finding = only(device, "global-out-of-bounds-read", "half_pair")
    assert "0 bytes past the end of an allocation of 126 bytes" in finding["message"]


def test_misaligned_vector(device: Device) -> None:
    device.call("wrong_shifted", sized(device, 32), sized(device, 32))
    finding = only(device, "misaligned-access", "shifted")
    assert "not a multiple of 16 bytes (4 too many)" in finding["message"]


@pytest.mark.parametrize(
    ("fault", "kind", "marker", "words"),
    [
        ("null", "null-pointer", "copies", "at address 0x0: the pointer is null"),
        ("host", "host-pointer", "copies", "the pointer is no device pointer"),
        ("freed", "freed-pointer", "copies", "inside an allocation of 128 bytes that was freed"),
        ("wild", "illegal-address", "copies", "which belongs to no allocation"),
        ("divide", "divide-by-zero", "divides", "division or remainder by zero"),
    ],
)
def test_bad_pointers_and_traps_have_their_line(
    device: Device, fault: str, kind: str, marker: str, words: str
) -> None:
    device.call(f"wrong_{fault}", sized(device, 64))
    assert words in only(device, kind, marker)["message"]


@pytest.mark.parametrize(
    ("kernel", "severity", "words"),
    [
        ("plain_sum", "error", "another block (number "),
        ("everybody_writes", "error", "Overwrites what"),
        ("vectors_overlap", "error", "Overwrites what"),
        ("same_flag", "warning", "Both store the same value"),
    ],
)
def test_races_between_blocks(device: Device, kernel: str, severity: str, words: str) -> None:
    device.call(f"wrong_{kernel}", sized(device, 32))
    [finding] = device.findings()
    assert (finding["kind"], finding["severity"]) == ("global-race-between-blocks", severity)
    assert finding["line"] == device.line(kernel)
    assert words in finding["message"]


def test_results_handed_over_need_a_fence(device: Device) -> None:
    part, done, out = sized(device, 32), device.array([0], "int32"), sized(device, 1)
    device.call("right_last_block", part, done, out)
    assert device.findings() == []
    assert out[0] == 32
    done[...] = 0
    device.call("wrong_no_fence", part, done, out)
    only(device, "global-race-between-blocks", "no_fence")


def test_dynamic_shared_memory_that_is_too_small(device: Device) -> None:
    device.call("wrong_too_little", sized(device, 64))
    assert found(device) == [
        ("shared-out-of-bounds-write", "error", device.line("too_little")),
        ("shared-out-of-bounds-read", "error", device.line("too_little_read")),
    ]
    message = device.findings()[0]["message"]
    assert "4 bytes past the end of the dynamic shared memory of the launch (252 bytes)" in message


def test_dynamic_shared_memory_that_was_forgotten(device: Device) -> None:
    device.call("wrong_none_at_all", sized(device, 64))
    assert "the launch has none: the third argument" in device.findings()[0]["message"]


def test_static_shared_memory(device: Device) -> None:
    device.call("wrong_past_static", sized(device, 32))
    message = only(device, "shared-out-of-bounds-read", "at")["message"]
    assert "4 bytes past the end of __shared__ 'a' (128 bytes, line" in message


def test_index_of_a_shared_array(device: Device) -> None:
    device.call("wrong_index_plus_one", sized(device, 32))
    line = device.line("index_plus_one")
    assert set(found(device)) == {
        ("array-index-out-of-bounds", "error", line),
        ("shared-out-of-bounds-write", "error", line),
    }
    messages = " ".join(finding["message"] for finding in device.findings())
    assert "Index 32 is out of range for an array of type 'float [32]'" in messages


def test_index_of_a_local_array(device: Device) -> None:
    device.call("wrong_local_index", sized(device, 32))
    finding = only(device, "array-index-out-of-bounds", "local_index")
    assert "Index 4 is out of range for an array of type 'float [4]'" in finding["message"]


def test_an_index_into_the_next_row_is_a_warning(device: Device) -> None:
    out = sized(device, 32)
    device.call("wrong_next_row", out)
    only(device, "array-index-out-of-bounds", "next_row", "warning")
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize("kernel", ["never_set", "never_zeroed"])
def test_uninitialised_shared_memory(device: Device, kernel: str) -> None:
    device.call(f"wrong_{kernel}", sized(device, 64))
    finding = only(device, "shared-uninitialised-read", kernel)
    assert "which no thread of this block has written" in finding["message"]


def test_a_missing_barrier_names_both_sides(device: Device) -> None:
    device.call("wrong_no_barrier", sized(device, 64))
    [race] = [finding for finding in device.findings() if finding["kind"] == "shared-race"]
    write, read = device.line("no_barrier_other"), device.line("no_barrier")
    assert (race["line"], race["severity"], race["thread"]) == (write, "error", [32, 0, 0])
    assert f"Thread 32 overwrites byte 128 of __shared__ 's' (256 bytes, line {write - 1})" in race["message"]
    assert f"which thread 31 read in line {read}, with no __syncthreads() in between" in race["message"]


def test_a_missing_second_barrier_in_a_loop(device: Device) -> None:
    device.call("wrong_no_second_barrier", sized(device, 64))
    write, read = device.line("no_second_barrier"), device.line("no_second_barrier_other")
    assert found(device) == [("shared-race", "error", read)]
    assert f"wrote in line {write}" in device.findings()[0]["message"]


@pytest.mark.parametrize(("same", "severity"), [(0, "error"), (1, "warning")])
def test_threads_that_store_to_one_place(device: Device, same: int, severity: str) -> None:
    device.call("wrong_all_write_one", sized(device, 64), same)
    assert found(device) == [("shared-race", severity, device.line("all_write_one"))]


def test_race_with_an_atomic(device: Device) -> None:
    device.call("wrong_reads_the_count", sized(device, 64))
    message = only(device, "shared-race", "reads_the_count_other")["message"]
    assert f"which thread 0 read in line {device.line('reads_the_count')}" in message


def test_race_inside_a_warp(device: Device) -> None:
    device.call("wrong_warp_no_sync", sized(device, 64))
    [race] = [finding for finding in device.findings() if finding["kind"] == "shared-race"]
    assert (race["line"], race["severity"]) == (device.line("warp_no_sync") - 1, "error")
    assert f"which thread 0 read in line {device.line('warp_no_sync')}" in race["message"]
    assert "with no __syncwarp() in between" in race["message"]


def test_warp_synchronous_code_computes_what_a_gpu_does(device: Device) -> None:
    x, out = sized(device, 64), sized(device, 1)
    device.call("legacy_warp", x, out)
    assert out[0] == 63 * 64 / 2
    assert {kind for kind, _, _ in found(device)} == {"shared-race"}
    assert {severity for _, severity, _ in found(device)} == {"error"}
    assert device.line("warp_synchronous") in {line for _, _, line in found(device)}
    out[...] = 0
    device.runtime.kw_check(0)
    device.call("legacy_warp", x, out)
    assert out[0] == 63 * 64 / 2


@pytest.mark.parametrize(
    "kernel",
    ["ordered_by_warp", "lock_and_add", "bytes_side_by_side", "other_memory", "two_launches", "counts"],
)
def test_correct_kernels_raise_nothing(device: Device, kernel: str) -> None:
    device.call(f"right_{kernel}", sized(device, 256))
    assert device.findings() == []


def test_blocks_may_share_a_word_of_halves(device: Device) -> None:
    x, out = device.array(np.ones(660), "float16"), device.array(np.zeros(660), "float16")
    device.call("right_odd_rows", x, out)
    assert device.findings() == []
    assert out.tolist() == x.tolist()


def test_copies_by_memcpy_are_accesses(device: Device) -> None:
    out = sized(device, 64)
    device.call("run_copies_bytes", sized(device, 40), out, 40)
    assert device.findings() == []
    assert out.tolist() == [float(i % 40) for i in range(64)]
    device.call("run_copies_bytes", sized(device, 40), out, 41)
    finding = only(device, "global-out-of-bounds-read", "copies_bytes")
    assert "Reads 164 bytes that begin inside an allocation of 160 bytes" in finding["message"]


def test_nothing_is_checked_unless_asked(device: Device) -> None:
    device.runtime.kw_check(0)
    device.call("wrong_no_guard", sized(device, 1000))
    device.call("wrong_no_barrier", sized(device, 64))
    assert device.findings() == []


def test_a_freed_allocation_is_forgotten_when_its_memory_is_used_again(device: Device) -> None:
    device.call("wrong_freed", sized(device, 64))
    device.reset()
    device.runtime.kw_check(1)
    address = device.runtime.kw_alloc(128)
    memory = memoryview((ctypes.c_char * 128).from_address(address)).cast("B")
    again = np.frombuffer(memory, dtype="float32")
    device.call("right_ordered_by_warp", sized(device, 256))
    device.call("wrong_bytes", again, 128)
    assert device.findings() == []
    device.runtime.kw_free(address)


def test_races_in_variables_of_the_library(device: Device) -> None:
    out = device.empty(1)
    device.call("right_last_gathers", out)
    assert device.findings() == []
    device.call("wrong_last_gathers", out)
    kinds = {finding["kind"] for finding in device.findings() if finding["severity"] == "error"}
    assert kinds == {"global-race-between-blocks"}
