"""Whole kernels: CUDA through nvcc to PTX to C++, run on the emulator and compared with numpy."""
# ruff: noqa: E501 - tables of expected values

import ctypes
import math
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_library import Array
from ptx_library import NVCC, PtxDevice, from_cuda

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

SOURCES = Path(__file__).parent / "ptx"
LIBC = ctypes.CDLL(None)


@cache
def built(name: str) -> PtxDevice:
    source = SOURCES / f"{name}.cu"
    return PtxDevice(source, from_cuda(source))


def clean(device: PtxDevice) -> Iterator[PtxDevice]:
    device.reset()
    yield device
    assert device.findings() == []


@pytest.fixture
def numbers() -> Iterator[PtxDevice]:
    yield from clean(built("numbers"))


@pytest.fixture
def blocks() -> Iterator[PtxDevice]:
    yield from clean(built("blocks"))


@pytest.fixture
def language() -> Iterator[PtxDevice]:
    yield from clean(built("language"))


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def test_gelu_in_both_forms(numbers: PtxDevice) -> None:
    n = 1003
    x, exact, approximate = numbers.array(values(n) * 3), numbers.empty(n), numbers.empty(n)
    numbers.launch("gelu_both", 8, 128, x, exact, approximate, np.int32(n))
    wide = x.astype("float64")
    erf = np.array([math.erf(v / math.sqrt(2)) for v in wide.tolist()])
    np.testing.assert_allclose(exact, 0.5 * wide * (1 + erf), atol=1e-6)
    tanh = np.tanh(0.79788456 * (wide + 0.044715 * wide**3))
    np.testing.assert_allclose(approximate, 0.5 * wide * (1 + tanh), atol=1e-6)


def test_elementary_functions(numbers: PtxDevice) -> None:
    n = 256
    x, out = numbers.array(values(n) * 2), numbers.empty((12, n))
    numbers.launch("elementary", 1, n, x, out, np.int32(n))
    v = x.astype("float64")
    expected = [
        np.exp(v), np.log(np.abs(v) + np.float32(0.1)), np.sin((x * np.float32(100)).astype("float64")), np.abs(v) ** np.float32(1.7),
        np.sqrt(np.abs(v)), np.arctan2(v, 0.5), np.log1p(v * v), np.expm1(v), np.fmod((x * np.float32(10)).astype("float64"), 3),
        np.rint(x * np.float32(4)), np.cbrt(v), np.exp(v) + np.log(np.abs(v) + 1),
    ]  # fmt: skip
    for number, (row, wanted) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_allclose(row, wanted, rtol=2e-6, atol=2e-6, err_msg=f"row {number}")


def test_double_precision(numbers: PtxDevice) -> None:
    n = 128
    x, out = numbers.array(values(n) * 2, "float64"), numbers.empty((7, n), "float64")
    numbers.launch("doubles", 1, n, x, out, np.int32(n))
    expected = [
        np.exp(x), np.log(np.abs(x) + 0.1), np.sin(x * 1e6), np.abs(x) ** 1.7, [math.erf(v) for v in x.tolist()],
        [math.gamma(abs(v) + 1) for v in x.tolist()], x / (1 + x * x),
    ]  # fmt: skip
    for number, (row, wanted) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_allclose(row, wanted, rtol=1e-14, atol=1e-15, err_msg=f"row {number}")


def test_pairs_of_halves(numbers: PtxDevice) -> None:
    x = numbers.array(np.linspace(-3, 3, 128), "float16")
    y = numbers.empty(128, "float16")
    numbers.launch("half_polynomial", 1, 64, x, y, np.int32(128))
    squares = (x.astype("float64") ** 2 + 0.5).astype("float16")
    np.testing.assert_array_equal(y, np.maximum(squares * (x + np.float16(1)), np.float16(0)))


def test_bfloat16_rms_norm(numbers: PtxDevice) -> None:
    x = numbers.array(values(5, 300).view("uint32") >> 16, "uint16")
    y = numbers.empty((5, 300), "uint16")
    numbers.launch("bfloat_norm", 5, 128, x, y, np.int32(300))
    wide = (x.astype("uint32") << 16).view("float32").astype("float64")
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose((y.astype("uint32") << 16).view("float32"), expected, rtol=5e-3)


def test_integer_arithmetic(numbers: PtxDevice) -> None:
    n, divisor, mask = 500, 1009, 0xFFFFFFFF
    x = numbers.array(np.random.default_rng(1).integers(0, 2**32, n), "uint32")
    out = numbers.empty(n, "uint32")
    numbers.launch("integer_mix", 4, 128, x, out, np.uint32(divisor), np.int32(n))

    def mixed(v: int) -> int:
        h = (v ^ v >> 16) * 0x85EBCA6B & mask
        h ^= h >> 13
        reverse = int(f"{v:032b}"[::-1], 2)
        first = (v & -v).bit_length()
        h = h % divisor + v.bit_count() * 3 + (32 - v.bit_length()) + reverse // 7 + first & mask
        data = (v | h << 32).to_bytes(8, "little")
        permuted = int.from_bytes(bytes(data[s] for s in (0, 4, 1, 5)), "little")
        h = h + (v * 0xDEADBEEF >> 32) + permuted + ((h << 32 | v) << 7 >> 32 & mask) & mask
        signed = v - 2**32 if v >> 31 else v
        quotient = -(abs(signed) // 3) if signed > 0 else abs(signed) // 3
        return h ^ (v * v // (divisor + 1) >> 5 & mask) ^ quotient & mask

    assert out.tolist() == [mixed(v) for v in x.tolist()]


def test_transpose(blocks: PtxDevice) -> None:
    x, y = blocks.array(values(50, 37)), blocks.empty((37, 50))
    blocks.launch("transpose_tiles", (3, 4), (16, 16), x, y, np.int32(50), np.int32(37))
    np.testing.assert_array_equal(y, x.T)


def test_tiled_product(blocks: PtxDevice) -> None:
    a, b, c = blocks.array(values(45, 70)), blocks.array(values(70, 33)), blocks.empty((45, 33))
    blocks.launch("tiled_product", (3, 3), (16, 16), a, b, c, np.int32(45), np.int32(33), np.int32(70))
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-5, atol=1e-5)


def test_online_softmax_with_structs_and_dynamic_shared_memory(blocks: PtxDevice) -> None:
    x, y = blocks.array(values(6, 333) * 4), blocks.empty((6, 333))
    blocks.launch_with("online_softmax", ((6, 1, 1), (64, 1, 1), 64 * 8), x, y, np.int32(333))
    e = np.exp(x.astype("float64") - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_warp_scan(blocks: PtxDevice) -> None:
    x, y = blocks.array(np.arange(160) % 7, "int32"), blocks.empty(160, "int32")
    blocks.launch("warp_scan", 2, 96, x, y, np.int32(160))
    np.testing.assert_array_equal(y, np.cumsum(x.reshape(5, 32), 1).ravel())


def test_cooperative_groups(blocks: PtxDevice) -> None:
    n = 200
    x, sums, positives = blocks.array(values(n)), blocks.empty(16), blocks.array([0], "int32")
    blocks.launch("grouped", 2, 128, x, sums, positives, np.int32(n))
    np.testing.assert_allclose(
        sums, np.resize(np.append(x, np.zeros(56)), 256).reshape(16, 16).sum(1), rtol=1e-5, atol=1e-6
    )
    assert positives[0] == (x > 0).sum()


def test_the_last_block_adds_up(blocks: PtxDevice) -> None:
    n = 12000  # enough for two OS threads
    x, parts, result = blocks.array(np.abs(values(n))), blocks.empty(47), blocks.array([0, 0])
    blocks.launch("last_block_sums", 47, 256, x, parts, result, np.int32(n))
    np.testing.assert_allclose(result, [x.sum(dtype="float64"), x.max()], rtol=1e-5)


def test_asynchronous_copies(blocks: PtxDevice) -> None:
    x, y = blocks.array(values(5, 256)), blocks.empty((5, 256))
    blocks.launch("staged", 1, 64, x, y, np.int32(5))
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_constants_and_a_struct_argument(language: PtxDevice) -> None:
    x, y = language.array(values(4, 60)), language.empty((4, 60))
    language.launch("smooth", 4, 64, x, y, struct.pack("<iif?3x", 4, 60, 2.0, True))
    padded = np.pad(x, ((0, 0), (1, 1)), mode="edge").astype("float64")
    expected = 2 * (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    np.testing.assert_allclose(y, expected[:, ::-1], atol=1e-6)


def test_recursion(language: PtxDevice) -> None:
    out = language.empty(30, "int32")
    language.launch("recursion", 1, 30, out)

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    assert out.tolist() == [steps(n) for n in range(1, 31)]


@pytest.mark.parametrize(("depth", "found"), [(8, []), (100, ["device-stack-overflow"])])
def test_recursion_deeper_than_a_threads_stack(language: PtxDevice, depth: int, found: list[str]) -> None:
    out = language.empty(1, "int32")
    language.launch("deepest", 1, 1, out, np.int32(depth))
    assert out[0] == depth
    assert [finding["kind"] for finding in language.findings()] == found
    language.reset()


def test_function_pointers_and_virtual_functions(language: PtxDevice) -> None:
    x, y, which = language.array(values(9)), language.empty(9), language.array(np.arange(9) % 3, "int32")
    language.launch("by_pointer", 1, 9, x, y, which)
    np.testing.assert_array_equal(y, np.choose(which, [2 * x, x * x, -x]))
    out = language.empty(6, "int32")
    language.launch("virtual_call", 1, 6, out)
    assert out.tolist() == [0, 101, 2, 103, 4, 105]


def test_local_arrays(language: PtxDevice) -> None:
    x, y = language.array(values(24, 50)), language.empty((24, 50))
    language.launch("sort_columns", 2, 32, x, y, np.int32(24), np.int32(50))
    np.testing.assert_array_equal(y, np.sort(x, 0))


def test_jump_tables(language: PtxDevice) -> None:
    codes = language.array(np.random.default_rng(3).integers(0, 9, 40), "int32")
    out = language.empty(64, "int32")
    language.launch("state_machine", 1, 64, codes, out, np.int32(40))

    def final(state: int) -> int:
        for code in codes.tolist():
            match code:
                case 0:
                    state += 1
                case 1:
                    state *= 3
                case 2:
                    state ^= 0x55
                case 3:
                    state -= (3, 1, 2, 0)[state & 3]
                case 4:
                    state = state // 2 if state > 50 else state
                case 5:
                    state = ~state & 0xFF
                case 6:
                    continue
                case _:
                    state = int(math.fmod(state, 97))
        return state  # fmt: skip

    assert out.tolist() == [final(start) for start in range(64)]


def test_printf(language: PtxDevice, capfd: pytest.CaptureFixture[str]) -> None:
    language.launch("talk", 1, 4, np.int32(7))
    LIBC.fflush(None)
    assert capfd.readouterr().out == f"thread 1 of 4: 10.50 words {2**40}% x\n"


def test_assert_is_a_finding_with_its_line() -> None:
    device = built("language")
    device.reset()
    device.launch("insist", 1, 4, np.int32(7))
    assert device.findings() == []
    device.launch("insist", 1, 4, np.int32(8))
    [finding] = device.findings()
    lines = device.source.read_text().splitlines()
    assert finding["kind"] == "device-assert"
    assert "n must be seven" in lines[finding["line"] - 1]
    assert finding["thread"] == [2, 0, 0]
    device.reset()
