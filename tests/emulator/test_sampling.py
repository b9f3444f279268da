"""Launches at real sizes over memory that is not there: what is found, and what is left alone."""

import ctypes
import resource
from collections.abc import Iterator

import pytest
from device_library import DEVICE, Device

OFF, ZEROS, NUMBERS = 0, 1, 2
LONG = 3 << 30  # float32 elements: 12 GB
ILLEGAL_ADDRESS = 700


class Sampled(Device):
    """A device whose memory is reserved; every test frees what it took."""

    def __init__(self) -> None:
        super().__init__(DEVICE / "sampling.cu", checked=True)
        self.taken: list[int] = []

    def reserve(self, elements: int, label: bytes = b"float32 tensor [3, 1073741824]") -> ctypes.c_void_p:
        address = self.runtime.kw_alloc(ctypes.c_size_t(4 * elements))
        assert address
        self.taken.append(address)
        self.runtime.kw_register(ctypes.c_void_p(address), ctypes.c_size_t(4 * elements), label)
        return ctypes.c_void_p(address)

    def notes(self) -> str:
        return self.text("kw_sample_notes")


@pytest.fixture(scope="module")
def built() -> Sampled:
    return Sampled()


@pytest.fixture(params=[ZEROS, NUMBERS], ids=["zeros", "numbers"])
def device(built: Sampled, request: pytest.FixtureRequest) -> Iterator[Sampled]:
    built.reset()
    built.runtime.kw_sample(request.param)
    yield built
    for address in built.taken:
        built.runtime.kw_free(address)
    built.taken.clear()
    built.runtime.kw_sample(OFF)
    built.reset()


@pytest.mark.parametrize("kernel", ["int_index", "grid_stride"])
def test_an_int_index_wraps_around(device: Sampled, kernel: str) -> None:
    x, y = device.reserve(LONG), device.reserve(LONG)
    assert device.call(f"run_{kernel}", x, y, ctypes.c_long(LONG)) == ILLEGAL_ADDRESS
    [finding] = device.findings()
    assert (finding["kind"], finding["line"]) == ("index-overflow", device.line(kernel))
    assert "Reads 4 bytes at element -21474" in finding["message"]
    assert "of a float32 tensor [3, 1073741824]: 2147" in finding["message"]
    assert "in int64_t or size_t" in finding["message"]
    assert finding["count"] == 1


def test_the_first_element_that_was_meant_is_named(device: Sampled) -> None:
    x, y = device.reserve(LONG), device.reserve(LONG)
    device.call("run_int_index", x, y, ctypes.c_long(LONG))
    [finding] = device.findings()
    assert "element -2147483648 of a" in finding["message"]
    assert "2147483648 was meant, which is more than 2147483647 (2^31 - 1)" in finding["message"]
    assert (finding["block"], finding["thread"]) == ([1 << 23, 0, 0], [0, 0, 0])


def test_a_product_of_ints_wraps_around(device: Sampled) -> None:
    x, y = device.reserve(50_000 * 50_000), device.reserve(50_000, b"float32 tensor [50000]")
    assert device.call("run_row_product", x, y, 50_000, 50_000) == ILLEGAL_ADDRESS
    [finding] = device.findings()
    assert (finding["kind"], finding["line"]) == ("index-overflow", device.line("row_product"))


def test_an_offset_in_bytes_wraps_around(device: Sampled) -> None:
    """Below 2^31 elements, above 2^31 bytes."""
    x, y = device.reserve(1 << 30), device.reserve(1 << 20)
    assert device.call("run_int_bytes", x, y, ctypes.c_long(1 << 30)) == ILLEGAL_ADDRESS
    [finding] = device.findings()
    assert (finding["kind"], finding["line"]) == ("index-overflow", device.line("int_bytes"))
    assert "offset -2147483648" in finding["message"]


@pytest.mark.parametrize("kernel", ["wide_index", "wide_stride"])
def test_a_wide_index_is_right(device: Sampled, kernel: str) -> None:
    x, y = device.reserve(LONG), device.reserve(LONG)
    assert device.call(f"run_{kernel}", x, y, ctypes.c_long(LONG)) == 0
    assert device.findings() == []
    assert device.notes() == ""


def test_a_wide_row_is_right(device: Sampled) -> None:
    x, y = device.reserve(50_000 * 50_000), device.reserve(50_000, b"float32 tensor [50000]")
    assert device.call("run_wide_row", x, y, 50_000, 50_000) == 0
    assert device.findings() == []


def test_long_blocks_stop_within_their_budget(device: Sampled) -> None:
    x, y = device.reserve(LONG), device.reserve(1 << 20)
    assert device.call("run_wide_row", x, y, 3, 1 << 30) == 0
    assert device.findings() == []
    assert device.notes() == ""


def test_a_bad_address_that_no_overflow_explains_keeps_its_kind(device: Sampled) -> None:
    x, y = device.reserve(LONG), device.reserve(LONG)
    device.call("run_beyond", x, y, ctypes.c_long(LONG))
    [finding] = device.findings()
    assert (finding["kind"], finding["line"]) == ("global-out-of-bounds-write", device.line("beyond"))


def test_an_address_made_of_values_is_another_one_over_other_values(built: Sampled) -> None:
    """What the judge tells such findings by: it asks for the same one twice."""
    messages = []
    for background in (ZEROS, NUMBERS):
        built.reset()
        built.runtime.kw_sample(background)
        x, y = built.reserve(LONG), built.reserve(1 << 20, b"float32 tensor [1048576]")
        built.call("run_by_value", x, y, ctypes.c_long(1 << 20))
        messages.append([finding["message"] for finding in built.findings()])
        built.runtime.kw_free(x)
        built.runtime.kw_free(y)
    built.taken.clear()
    built.runtime.kw_sample(OFF)
    built.reset()
    assert messages[0] != messages[1]


def test_a_grid_that_no_gpu_launches(device: Sampled) -> None:
    x, y = device.reserve(LONG), device.reserve(LONG)
    device.call("run_tall_grid", x, y, ctypes.c_long(LONG))
    [finding] = device.findings()
    assert (finding["kind"], finding["line"]) == ("illegal-launch", device.line("tall_grid"))
    assert "grid (1, 70000, 1); the limits are x 2147483647, y 65535 and z 65535" in finding["message"]


def test_what_values_decide_is_no_finding(built: Sampled) -> None:
    """Waiting for a value, dividing by zero: there are no values here."""
    built.reset()
    built.runtime.kw_sample(ZEROS)
    x, y = built.reserve(1 << 20), built.reserve(1 << 20)
    assert built.call("run_ends_quietly", x, y, ctypes.c_long(1 << 20)) == 0
    assert built.findings() == []
    assert built.notes() == "kernel ends_quietly: waits for other blocks"
    built.runtime.kw_free(x)
    built.runtime.kw_free(y)
    built.taken.clear()
    built.runtime.kw_sample(OFF)
    built.reset()


def test_little_memory_is_used(device: Sampled) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x, y = device.reserve(LONG), device.reserve(LONG)
    device.call("run_wide_stride", x, y, ctypes.c_long(LONG))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10
