"""CUDA's execution model: every mechanism that generated kernels use, against numpy."""

import ctypes
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from device_library import DEVICE, Array, Device

from agent.torch_shim.c_abi import CLaunchRequest

N = 1001


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "mechanisms.cu")


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    """The kernels; whatever a test runs must end without a finding."""
    built.reset()
    yield built
    assert built.findings() == []
    assert built.runtime.cudaGetLastError() == 0


def values(count: int = N) -> Array:
    return np.random.default_rng(count).standard_normal(count).astype("float32")


@pytest.mark.parametrize("form", ["template", "deduced", "macro", "pointer", "lambda"])
def test_launch_forms(device: Device, form: str) -> None:
    x, y = device.array(values()), device.empty(N)
    before = device.runtime.kw_launch_count()
    device.call(f"run_scale_{form}", x, y, N)
    np.testing.assert_array_equal(y, 2 * x)
    assert device.runtime.kw_launch_count() == before + 1


@pytest.mark.parametrize("size", [0, 8, ctypes.sizeof(CLaunchRequest) - 8, ctypes.sizeof(CLaunchRequest) + 8])
def test_a_request_of_another_size_is_refused(
    device: Device, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is the caller's fault, so that neither an error of CUDA's nor a finding blames a kernel."""
    before = device.runtime.kw_launch_count()
    request = CLaunchRequest(size=size, name=b"kernel", grid=(1, 1, 1), block=(1, 1, 1))
    assert device.runtime.kw_launch(ctypes.byref(request)) == 1
    assert (
        f"a request of {size} bytes, where this runtime takes {ctypes.sizeof(CLaunchRequest)}"
        in capfd.readouterr().err
    )
    assert device.runtime.kw_launch_count() == before


def test_overloaded_kernels_and_converted_arguments(device: Device) -> None:
    x, y = device.array(values()), device.empty(N)
    i, j = device.array(np.arange(N), "int32"), device.empty(N, "int32")
    device.call("run_overloads", x, y, i, j, N)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(j, i + 1)


def test_launch_arguments_are_evaluated_once(device: Device) -> None:
    x, y, calls = device.array(values()), device.empty(N), ctypes.c_int(0)
    device.call("run_evaluated_once", x, y, N, ctypes.byref(calls))
    np.testing.assert_array_equal(y, 2 * x)
    assert calls.value == 3


def test_launched_names_are_as_written(device: Device) -> None:
    x, y = device.array(values()), device.empty(N)
    device.call("run_scale_template", x, y, N)
    device.call("run_add4", x, x, y, N)
    names = device.text("kw_launch_names").split("\n")
    assert {"scale<float>", "add4"} <= set(names)
    assert len(names) == len(set(names))


def test_vector_types(device: Device) -> None:
    a, b, c = device.array(values(128)), device.array(values(128)[::-1]), device.empty(128)
    device.call("run_add4", a, b, c, 128)
    np.testing.assert_array_equal(c, a + b)


def test_layer_norm_with_block_reductions(device: Device) -> None:
    x, y = device.array(values(40 * 333).reshape(40, 333)), device.empty((40, 333))
    device.call("run_layer_norm", x, y, 40, 333)
    wide = x.astype("float64")
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_softmax_with_dynamic_shared_memory(device: Device) -> None:
    x, y = device.array(values(50 * 77).reshape(50, 77)), device.empty((50, 77))
    device.call("run_softmax", x, y, 50, 77)
    e = np.exp(x.astype("float64"))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_tiled_matmul(device: Device) -> None:
    a, b = device.array(values(50 * 50).reshape(50, 50)), device.array(values(2500)[::-1].reshape(50, 50))
    c = device.empty((50, 50))
    device.call("run_matmul", a, b, c, 50)
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", ["run_shared_kinds", "run_big_dynamic"])
def test_shared_declarations_of_every_kind(device: Device, function: str) -> None:
    out = device.empty(65)
    device.call(function, out)
    np.testing.assert_array_equal(out[:64], 11 * np.arange(63, -1, -1))
    assert out[64] == 1.5 + 7 + 2 + 3 + 4 + 5 + 1


def test_unwritten_shared_and_device_memory_is_nan(device: Device) -> None:
    fresh, out = device.empty(7), device.array(np.zeros(64))
    device.call("run_unwritten", out)
    assert np.isnan(fresh).all()
    assert np.isnan(out).all(), "a block saw what an earlier block left in shared memory"


def test_device_memory_is_aligned_and_used_again(device: Device) -> None:
    size = 77_001  # no other test frees as much
    first = device.runtime.kw_alloc(size)
    ctypes.memset(first, 0, size)
    device.runtime.kw_free(first)
    again = device.runtime.kw_alloc(size)
    assert first % 512 == 0
    assert again == first
    assert bytes((ctypes.c_char * size).from_address(again)) == b"\xff" * size


def test_constant_and_device_variables(device: Device) -> None:
    x, y, c = device.array(values()), device.empty(N), np.array([1, -2, 3, -4], "float32")
    assert device.call("run_polynomial", x, y, N, c) == N
    np.testing.assert_allclose(y, np.polyval([0.5, *c], x.astype("float64")), rtol=1e-4, atol=1e-4)


def test_warp_operations(device: Device) -> None:
    rows = device.empty((15, 64), "int32")
    device.call("run_warp_ops", rows)
    t = np.arange(64)
    lane, warp = t % 32, t // 32
    sets = np.array([sum(1 << j for j in range(32) if j // 5 == k) for k in range(7)])
    expected = [
        32 * warp + 3,
        np.where(lane == 0, t, t - 1),
        np.where(lane % 8 < 6, t + 2, t),
        t ^ 5,
        np.full(64, sum(1 << j for j in range(0, 32, 3))),
        warp,
        1 - warp,
        sets[lane // 5],
        np.where(warp == 0, 496, 1520),
        np.zeros(64),
        np.where(lane % 2, 0xAAAAAAAA, 0x55555555),
        np.where(lane < 8, 8, 0xFFFFFF00),
        np.ones(64),
        32 * warp + 31,
        np.full(64, 10 + 100 + 1000),
    ]
    for number, (row, wanted) in enumerate(zip(rows, expected, strict=True)):
        wanted = np.asarray(wanted).astype("int64").astype("uint32").view("int32")
        np.testing.assert_array_equal(row, wanted, err_msg=f"row {number}")


def test_coalesced_threads_are_those_of_the_branch(device: Device) -> None:
    x, kept = device.array(values()), device.array([0], "int32")
    device.call("run_aggregate", x, kept, N)
    assert kept[0] == (x > 0).sum()


def test_cooperative_groups(device: Device) -> None:
    x, sums, total = device.array(values(64)), device.empty(16), device.empty(3)
    device.call("run_groups", x, sums, total)
    np.testing.assert_allclose(sums, x.reshape(16, 4).sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(total, [x[:32].max(), x[32:].max(), 36])


def test_atomics_across_blocks(device: Device) -> None:
    n = 20000  # enough for two OS threads
    i, u = device.array(np.zeros(6), "int32"), device.array([0, 0, 0xFF, 0, 0], "uint32")
    wide, f, d = device.array([0, 0], "uint64"), device.array([0]), device.array([0, 0], "float64")
    device.call("run_atomics", i, u, wide, f, d, n)
    assert i.tolist() == [n, -2 * n, 1 - n, n - 1, 0, n]
    decremented = 0
    for _ in range(n):
        decremented = 4 if decremented == 0 or decremented > 4 else decremented - 1
    xor = int(np.bitwise_xor.reduce(np.arange(n)))
    assert u.tolist() == [n % 7, decremented, 0, 0xFF, xor]
    assert wide.tolist() == [n << 33, (n - 1) << 40]
    assert (f[0], d.tolist()) == (n / 2, [n / 4, n - 1])


def test_half_and_bfloat16(device: Device) -> None:
    x, y = device.array(np.linspace(-2, 2, 64)), device.empty(64)
    device.call("run_halves", x, y, 64)
    h = x.astype("float16").astype("float64")
    np.testing.assert_allclose(y, h * h + 1 + np.exp(h) + h * h + 0.5, rtol=2e-2)


def test_math_functions(device: Device) -> None:
    n = 64
    x, y, k = device.array(np.linspace(-3, 3, n)), device.empty((8, n)), device.empty((8, n), "int32")
    device.call("run_math", x, y, k, n)
    v = x.astype("float64")

    def each(function: Callable[[float], float]) -> Array:
        return np.array([function(item) for item in v])

    expected = [
        np.exp(v), np.log(np.abs(v) + 1), each(lambda a: 0.5 * math.erfc(-a / math.sqrt(2))), None,
        np.clip(v, 0, 1), 1 / np.sqrt(v * v + 1), v * v + 1, np.minimum(v, np.maximum(0.5, -v)),
    ]  # fmt: skip
    for row, wanted in zip(y, expected, strict=True):
        if wanted is not None:
            np.testing.assert_allclose(row, wanted, rtol=2e-6, atol=1e-7)
    back = np.array([math.erf(a) for a in y[3].astype("float64")])
    np.testing.assert_allclose(back, np.tanh(v), rtol=1e-5, atol=1e-6)
    i = np.arange(n)
    np.testing.assert_array_equal(k[0], np.floor(v))
    lowest = np.array([(int(a) & -int(a)).bit_length() for a in i])
    np.testing.assert_array_equal(
        k[1],
        [int(a).bit_count() + 32 - (int(a) + 1).bit_length() + b for a, b in zip(i, lowest, strict=True)],
    )
    np.testing.assert_array_equal(k[2].view("uint32"), [int(f"{a:032b}"[::-1], 2) for a in i])
    np.testing.assert_array_equal(
        k[3], np.clip((x * np.float32(1e12)).astype("float64"), -(2**31), 2**31 - 1)
    )
    np.testing.assert_array_equal(k[4], i + np.minimum(i, 3))
    np.testing.assert_array_equal(k[5], x.view("int32"))
    np.testing.assert_array_equal(k[6], 1 + 4 * i)
    assert (k[7] == 0x77116600).all()


def test_printf_assert_and_clock(device: Device, capfd: pytest.CaptureFixture[str]) -> None:
    ticks = device.array([-1, -1], "int64")
    device.call("run_chatty", ticks)
    assert capfd.readouterr().out == "block 0 says 1.50\n"
    assert (ticks > 0).all()


def test_indices_of_three_dimensions(device: Device) -> None:
    out = device.empty(24 * 30, "int32")
    device.call("run_index", out)
    np.testing.assert_array_equal(out.reshape(24, 30), 1000 * np.arange(24)[:, None] + np.arange(30))


def test_the_last_block_sees_what_the_others_wrote(device: Device) -> None:
    x, partial, out = device.array(values(30000)), device.empty(40), device.empty(1)
    for _ in range(3):
        device.call("run_last_block", x, partial, out, 30000)
        np.testing.assert_allclose(out[0], x.astype("float64").sum(), atol=1e-2)


def test_a_short_buffer_is_cut_and_the_length_still_told(device: Device) -> None:
    whole = device.text("kw_findings")
    buffer = ctypes.create_string_buffer(b"xxxx", 4)
    assert device.runtime.kw_findings(buffer, 2) == len(whole)
    assert buffer.raw == b"[\0xx"
