"""What the runtime says about kernels that are wrong, and that the process lives on."""

from collections.abc import Iterator
from typing import Any

import pytest
from device_library import DEVICE, Array, Device

INVALID_VALUE, INVALID_CONFIGURATION, INVALID_DIRECTION, OUT_OF_MEMORY = 1, 9, 21, 2
ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, ASSERT, LAUNCH_FAILURE = 700, 702, 710, 719


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "faults.cu")


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    yield built
    built.reset()
    out = built.empty(64)
    built.call("fine_spinning", out)
    assert out[:32].tolist() == list(range(32, 0, -1)), "the device does not work any more"
    assert built.findings() == []


@pytest.fixture
def out(device: Device) -> Array:
    return device.empty(4096)


def only(device: Device, kind: str, severity: str = "error") -> dict[str, Any]:
    finding: dict[str, Any]
    [finding] = device.findings()
    assert (finding["kind"], finding["severity"]) == (kind, severity)
    return finding


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("threads", INVALID_CONFIGURATION, "block (33, 33, 1) has 1089 threads; the limit is 1024 threads"),
        ("block_z", INVALID_CONFIGURATION, "block (1, 1, 65)"),
        ("block_overflow", INVALID_CONFIGURATION, "block (65536, 65536, 1)"),
        ("grid_y", INVALID_CONFIGURATION, "grid (1, 70000, 1); the limits are x 2147483647, y 65535 and"),
        ("grid_negative", INVALID_CONFIGURATION, "grid (4294967295, 1, 1)"),
        ("empty", INVALID_CONFIGURATION, "grid (0, 1, 1) and block (32, 1, 1): no size may be 0"),
        ("dynamic", INVALID_VALUE, "50000 bytes of dynamic shared memory; the limit is 49152 unless"),
        ("dynamic_too_much", INVALID_VALUE, "300000 bytes of dynamic shared memory; a block cannot have"),
        ("other_kernels_attribute", INVALID_VALUE, "60000 bytes of dynamic shared memory; the limit is 4915"),
    ],
)  # fmt: skip
def test_illegal_launch(device: Device, out: Array, fault: str, error: int, words: str) -> None:
    before = device.runtime.kw_launch_count()
    device.call(f"fault_{fault}", out)
    finding = only(device, "illegal-launch")
    assert words in finding["message"]
    assert finding["block"] is finding["thread"] is None
    assert device.runtime.kw_launch_count() == before
    assert device.runtime.cudaPeekAtLastError() == error
    assert device.runtime.cudaGetLastError() == error
    assert device.runtime.cudaGetLastError() == 0, "a refused launch does not break the context"


def test_an_illegal_launch_names_kernel_and_line(device: Device, out: Array) -> None:
    device.call("fault_threads", out)
    finding = only(device, "illegal-launch")
    assert (finding["kernel"], finding["line"]) == ("fine", device.line("fault_threads"))


def test_the_same_fault_again_is_counted(device: Device, out: Array) -> None:
    for _ in range(3):
        device.call("fault_threads", out)
    device.call("fault_grid_y", out)
    assert [finding["count"] for finding in device.findings()] == [3, 1]


def test_attribute_beyond_the_device(device: Device, out: Array) -> None:
    assert device.call("fault_attribute", out) == INVALID_VALUE
    assert device.runtime.cudaGetLastError() == INVALID_VALUE


@pytest.mark.parametrize(
    ("fault", "kind", "error", "words"),
    [
        ("null", "illegal-address", ILLEGAL_ADDRESS, "a null pointer was dereferenced"),
        ("wild", "illegal-address", ILLEGAL_ADDRESS, "which belongs to no allocation"),
        ("divide", "divide-by-zero", LAUNCH_FAILURE, "Integer division or remainder by zero"),
        ("stack", "device-stack-overflow", ILLEGAL_ADDRESS, "more than 240 KB of stack"),
        ("assert", "device-assert", ASSERT, "`threadIdx.x < 3 && \"three at most\"' failed."),
        ("trap", "device-assert", LAUNCH_FAILURE, "__trap()"),
        ("deadlock", "deadlock", LAUNCH_TIMEOUT, "waits for ever for a value (it sees 0x1 each time)"),
    ],
)  # fmt: skip
def test_a_fault_in_a_kernel_breaks_the_context(
    device: Device, out: Array, fault: str, kind: str, error: int, words: str
) -> None:
    device.call(f"fault_{fault}", out)
    finding = only(device, kind)
    assert words in finding["message"]
    assert finding["block"] is not None
    launched = device.runtime.kw_launch_count()
    device.call("fault_null", out)
    assert device.runtime.kw_launch_count() == launched, "a broken context runs nothing"
    for call in ("cudaGetLastError", "cudaGetLastError", "cudaDeviceSynchronize"):
        assert getattr(device.runtime, call)() == error


def test_a_fault_names_block_and_thread(device: Device, out: Array) -> None:
    device.call("fault_null", out)
    finding = only(device, "illegal-address")
    assert (finding["kernel"], finding["block"], finding["thread"]) == ("null_write", [2, 0, 0], [5, 0, 0])


@pytest.mark.parametrize("fault", ["assert", "trap", "deadlock"])
def test_a_fault_in_a_call_names_its_line(device: Device, out: Array, fault: str) -> None:
    device.call(f"fault_{fault}", out)
    [finding] = device.findings()
    assert finding["line"] == device.line(f"fault_{fault}")


def test_misaligned_vector(device: Device, out: Array) -> None:
    device.call("fault_misaligned", out)
    assert "not a multiple of its size" in only(device, "illegal-address")["message"]


def test_divergent_barrier(device: Device, out: Array) -> None:
    device.call("fault_barrier", out)
    finding = only(device, "divergent-barrier")
    first, other = device.line("fault_barrier"), device.line("fault_barrier_other")
    assert f"thread 0 at line {first}, thread 16 at line {other}" in finding["message"]
    assert (finding["line"], finding["count"]) == (first, 2)
    assert device.runtime.cudaGetLastError() == 0


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("exit", "barrier-after-exit", "24 of 64 threads of the block had returned"),
        ("divergent_shuffle", "warp-op-divergent", "by lanes 0x0000ffff; lanes 0xffff0000 wait at __sync"),
    ],
)  # fmt: skip
def test_undefined_behaviour_that_often_works_is_a_warning(
    device: Device, out: Array, fault: str, kind: str, words: str
) -> None:
    device.call(f"fault_{fault}", out)
    finding = only(device, kind, "warning")
    assert words in finding["message"]
    assert finding["line"] == device.line(f"fault_{fault}")
    assert device.runtime.cudaGetLastError() == 0


def test_a_mask_that_leaves_its_caller_out_is_an_error(device: Device, out: Array) -> None:
    device.call("fault_excluded", out)
    finding = only(device, "warp-mask-excludes-caller", "error")
    assert "Lane 16 calls a warp operation with mask 0x0000ffff" in finding["message"]
    assert finding["line"] == device.line("fault_excluded")


def test_shuffle_with_lanes_that_returned(device: Device, out: Array) -> None:
    device.call("fault_returned_lanes", out)
    finding = only(device, "warp-op-absent-lanes", "warning")
    assert "names lanes 0xfff00000, which have returned" in finding["message"]
    assert out[:16].tolist() == [1.0] * 16
    assert (out[16:20] != out[16:20]).all(), "a value that nobody provided must be NaN"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("static", "65536 bytes up to 'b'; the limit is 49152 bytes"),
        ("static_and_dynamic", "65536 bytes of shared memory (32768 static up to 'a' and 32768 dynamic)"),
    ],
)
def test_too_much_shared_memory(device: Device, out: Array, fault: str, words: str) -> None:
    device.call(f"fault_{fault}", out)
    finding = only(device, "shared-memory-limit")
    assert words in finding["message"]
    assert finding["line"] == device.line(f"fault_{fault}")
    assert device.runtime.cudaGetLastError() == INVALID_VALUE


def test_shared_memory_of_both_kinds_has_the_opt_in_limit_once_it_is_asked_for(
    device: Device, out: Array
) -> None:
    """Asking for no more than the default counts: without the call, 48 KB are the limit of both together."""
    device.call("fault_none_of_both_kinds", out)
    assert device.findings() == []
    assert out[:32].tolist() == [2.0] * 32
    device.call("fault_both_beyond_the_device", out)
    finding = only(device, "shared-memory-limit")
    assert "237568 bytes of shared memory" in finding["message"]
    assert "the limit of this launch is 232448 bytes" in finding["message"]
    assert device.runtime.cudaGetLastError() == INVALID_VALUE


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("copy_beyond", INVALID_VALUE, "cudaMemcpy of 101 bytes goes beyond its destination."),
        ("copy_from_null", INVALID_VALUE, "cudaMemcpy of 8 bytes uses an invalid address."),
        ("copy_after_free", 1000 + INVALID_VALUE, "cudaMemset of 256 bytes goes beyond its destination."),
        ("copy_direction", INVALID_DIRECTION, None),
        ("malloc_too_much", OUT_OF_MEMORY, None),
    ],
)
def test_bad_copies_return_errors(
    device: Device, out: Array, function: str, error: int, words: str | None
) -> None:
    assert device.call(function, out) == error
    assert [finding["message"] for finding in device.findings()] == ([words] if words else [])
    assert device.runtime.cudaGetLastError() == error % 1000


def test_one_worker_finds_the_same(device: Device, out: Array) -> None:
    device.runtime.kw_init(1)
    try:
        device.call("fault_wild", out)
        device.call("fault_barrier", out)
    finally:
        device.runtime.kw_init(2)
    assert [finding["kind"] for finding in device.findings()] == ["illegal-address"]
