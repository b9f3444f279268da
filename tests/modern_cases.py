"""Inputs and expected outputs of `emulator/modern/gemms.cu`, for the emulator and for a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BYTE, HALF = 0, 6
"""Element types of tensor maps: uint8 and float16."""


@dataclass(frozen=True)
class Map:
    """Tensor map of one array with 128-byte swizzle. `box` lists the last dimension first."""

    array: int
    box: tuple[int, int]
    kind: int = HALF


Argument = int | Map | np.generic
"""Kernel argument: the index of an array, a map of an array, or a value."""


@dataclass(frozen=True)
class Given:
    arrays: tuple[Array, ...]
    arguments: tuple[Argument, ...]
    expected: Array
    """Expected content of the array `output`."""
    output: int
    tolerance: float = 0.0


@dataclass(frozen=True)
class Case:
    kernel: str
    make: Callable[[], Given]
    grid: int = 1
    threads: int = 128
    cluster: int = 1
    dynamic: int = 0


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-8, 8, shape) / 4


def bfloat(numbers: Array) -> Array:
    return (numbers.astype("float32").view("uint32") >> 16).astype("uint16")


def small(numbers: Array) -> Array:
    """Convert multiples of 1/4 below 2 in magnitude to e4m3 bits."""
    size = np.abs(numbers)
    exponent = np.floor(np.log2(np.where(size == 0, 1, size))).astype(int)
    fraction = np.where(size == 0, 0, size / 2.0**exponent - 1) * 8
    bits = np.where(size == 0, 0, ((exponent + 7) << 3) + fraction.astype(int))
    return (bits | np.where(numbers < 0, 0x80, 0)).astype("uint8")


def int8() -> Given:
    a, b = (np.random.default_rng(rows).integers(-128, 128, (rows, 96)).astype("int8") for rows in (64, 32))
    expected = a.astype("int32") @ b.astype("int32").T
    return Given((a, b, np.zeros((64, 32), "int32")), (0, 1, 2, np.int32(96)), expected, 2)


def fp8() -> Given:
    a, b = values(64, 256) / 4, values(32, 256) / 4
    maps = Map(0, (128, 64), BYTE), Map(1, (128, 32), BYTE)
    arrays = small(a), small(b), np.zeros((64, 32), "float32")
    return Given(arrays, (*maps, 2, np.int32(256)), (a @ b.T).astype("float32"), 2)


def clusters() -> Given:
    m, n, k = 256, 96, 192
    a, b = values(m, k).astype("float16"), values(n, k).astype("float16")
    expected = a.astype("float32") @ b.astype("float32").T
    sizes = (np.int32(m), np.int32(n), np.int32(k))
    maps = Map(0, (64, 64)), Map(1, (64, 16))
    return Given((a, b, np.zeros((m, n), "float32")), (*maps, 2, *sizes), expected, 2)


def split_k() -> Given:
    a, b = values(16, 256), values(8, 256)
    arrays = (
        bfloat(a),
        bfloat(b),
        np.zeros((16, 8), "float32"),
        np.zeros(512, "float32"),
        np.zeros(1, "int32"),
    )
    return Given(arrays, (0, 1, 2, 3, 4, np.int32(256)), (a @ b.T).astype("float32"), 2)


def stream_k() -> Given:
    tiles, k = 3, 160
    a, b = values(16 * tiles, k), values(8, k)
    parts, flags = np.zeros(128 * 4, "float32"), np.zeros(4, "int32")
    arrays = bfloat(a), bfloat(b), np.zeros((16 * tiles, 8), "float32"), parts, flags
    sizes = np.int32(tiles), np.int32(k)
    return Given(arrays, (0, 1, 2, 3, 4, *sizes), (a @ b.T).astype("float32"), 2)


def attention() -> Given:
    keys = 160
    q, k, v = (
        values(rows, 64 + i).astype("float16")[:, :64].copy() for i, rows in enumerate((64, keys, keys))
    )
    scores = q.astype("float64") @ k.astype("float64").T / 8
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = powers @ v.astype("float64") / powers.sum(1, keepdims=True)
    maps = Map(0, (64, 64)), Map(1, (64, 32)), Map(2, (64, 32))
    return Given((q, k, v, np.zeros((64, 64), "float32")), (*maps, 3, np.int32(keys)), expected, 3, 2e-3)


CASES = (
    Case("int8_product", int8),
    Case("fp8_product", fp8, dynamic=96 * 128),
    Case("clusters", clusters, grid=4, threads=256, cluster=2, dynamic=2 * 12288),
    Case("split_k", split_k, grid=4, threads=32),
    Case("stream_k", stream_k, grid=4, threads=32),
    Case("attention", attention, dynamic=3 * 8192),
)
