"""Host code around kernels: whose memory it touches, copies, streams; and how exact device functions are."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from device_library import DEVICE, Array, Device

CURRENT = 0x5000


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "host_side.cu", checked=True)


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    built.runtime.kw_set_current_stream(CURRENT)
    yield built
    built.runtime.kw_set_current_stream(None)
    built.reset()


@pytest.fixture
def x(device: Device) -> Array:
    return device.array(np.arange(64))


def kinds(device: Device) -> list[tuple[str, int | None]]:
    return [(f["kind"], f["line"]) for f in device.findings() if f["severity"] == "error"]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("host_reads", "device-pointer"),
        ("host_writes", "device-pointer"),
        ("direction", "illegal-address"),
        ("pinned", "async-copy-not-waited"),
    ],
)
def test_memory_of_the_other_side(device: Device, x: Array, function: str, kind: str) -> None:
    device.call(f"wrong_{function}", x)
    assert kinds(device) == [(kind, device.line(function))]


def test_fills_are_for_device_memory(device: Device) -> None:
    device.call("wrong_fill")
    assert kinds(device) == [("illegal-address", device.line("fill"))]


@pytest.mark.parametrize("function", ["copies", "pinned"])
def test_copies_as_they_should_be(device: Device, x: Array, function: str) -> None:
    device.call(f"right_{function}", x)
    assert device.findings() == []


def called(device: Device, function: str, x: Array) -> list[tuple[str, int | None]]:
    device.runtime.kw_call_begins()
    device.call(function, x, ctypes.c_void_p(CURRENT))
    device.runtime.kw_call_ends()
    return kinds(device)


@pytest.mark.parametrize("function", ["right_aside", "right_host_waits"])
def test_another_stream_between_events(device: Device, x: Array, function: str) -> None:
    assert called(device, function, x) == []


@pytest.mark.parametrize("function", ["wrong_no_fork", "wrong_no_join"])
def test_another_stream_that_nothing_orders(device: Device, x: Array, function: str) -> None:
    assert called(device, function, x) == [("unordered-stream", device.line("aside"))]


def test_approximate_functions_have_the_documented_error(device: Device) -> None:
    values = np.linspace(0.1, 3.1, 400, dtype=np.float32)
    y = device.empty((5, 400))
    device.call("run_approximates", device.array(values), y, 400)
    exact = values.astype(np.float64)
    tanh = np.abs(y[0] / np.tanh(exact) - 1)
    assert 2.0**-13 < tanh.max() <= 2.0**-11 * 1.001
    for row, function in ((1, np.sin), (2, np.cos)):
        error = np.abs(y[row] - function(exact))
        assert 2.0**-24 < error.max() <= 2.0**-21
    exp = np.abs(y[3] / np.exp(exact) - 1)
    assert exp.max() <= (2 + 1.173 * 3.1) * 2.0**-22
    assert np.abs(y[4] - np.log(exact)).max() <= 2.0**-20


def test_the_sine_of_a_vast_number_is_lost(device: Device) -> None:
    values = np.linspace(1e5, 1.1e5, 100, dtype=np.float32)
    y = device.empty((5, 100))
    device.call("run_approximates", device.array(values), y, 100)
    assert np.abs(y[1] - np.sin(values.astype(np.float64))).max() > 1e-3


def test_rounded_operations_are_not_fused(device: Device) -> None:
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(512).astype(np.float32) for _ in range(3))
    y = device.empty(512)
    device.call("run_unfused", *(device.array(values) for values in (a, b, c)), y, 512)
    assert y.tolist() == ((a * b).astype(np.float32) + c).tolist()
