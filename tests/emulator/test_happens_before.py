"""Order between blocks and warps: fences, flags and barriers that publish, and those that do not."""

from collections.abc import Iterator

import numpy as np
import pytest
from device_library import DEVICE, Device


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "happens_before.cu", checked=True)


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    built.runtime.kw_check(1)
    yield built
    built.runtime.kw_check(0)
    built.reset()


def call(device: Device, kernel: str) -> None:
    flags = device.array(np.zeros(64), "int32")
    device.call(kernel, device.array(np.zeros(1024)), flags, device.array(np.zeros(1024)))


@pytest.mark.parametrize(
    "kernel",
    [
        "chain",
        "transitive",
        "all_fence",
        "locked",
        "own_counts",
        "warps",
        "turned",
        "bytes_of_two_warps",
        "in_place",
    ],
)
def test_ordered_accesses_raise_no_error(device: Device, kernel: str) -> None:
    call(device, f"right_{kernel}")
    assert [f["message"] for f in device.findings() if f["severity"] == "error"] == []


@pytest.mark.parametrize(
    ("kernel", "marker"),
    [
        ("early_fence", "chain"),
        ("no_fence", "chain"),
        ("block_fence", "chain"),
        ("no_barrier", "chain"),
        ("other_flag", "chain"),
        ("nobody_waits", "nobody_waits"),
        ("locked", "locked"),
        ("block_counts", "block_counts"),
    ],
)
def test_unordered_blocks_race(device: Device, kernel: str, marker: str) -> None:
    call(device, f"wrong_{kernel}")
    errors = [f for f in device.findings() if f["severity"] == "error"]
    assert {f["kind"] for f in errors} == {"global-race-between-blocks"}
    assert device.line(marker) in {f["line"] for f in errors}


@pytest.mark.parametrize("kernel", ["warps", "warps_volatile", "turned", "overwritten"])
def test_unordered_warps_race(device: Device, kernel: str) -> None:
    call(device, f"wrong_{kernel}")
    errors = [f for f in device.findings() if f["severity"] == "error"]
    assert {f["kind"] for f in errors} == {"global-race-within-block"}
    assert device.line(kernel.removesuffix("_volatile")) in {f["line"] for f in errors}


def test_the_read_only_cache_is_not_for_what_the_launch_writes(device: Device) -> None:
    call(device, "wrong_written_first")
    [finding] = device.findings()
    assert (finding["kind"], finding["severity"]) == ("read-only-load", "error")
    assert finding["line"] == device.line("written_first")
