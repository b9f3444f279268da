"""Tensor maps by im2col: columns of pixels, against a walk of the filter's base in numpy."""

import ctypes
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from device_library import Array
from modern_gpu import GpuDevice
from modern_kernels import FLOAT, ORDERS, SWIZZLE_128B, Checked, encode, values
from ptx_library import NVCC, PtxDevice

from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")


@dataclass(frozen=True)
class Column:
    """The last dimension first in all of these: channels, then (width, height, depth), then images."""

    shape: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    at: tuple[int, ...]
    offsets: tuple[int, ...]
    steps: tuple[int, ...]
    """Of the spatial dimensions."""
    pixels: int = 20
    channels: int = 8
    swizzle: int = 0

    def encoded(self, device: PtxDevice, tensor: Array) -> bytes:
        rank, made = tensor.ndim, ctypes.create_string_buffer(128)
        sizes = (ctypes.c_uint64 * rank)(*self.shape)
        strides = (ctypes.c_uint64 * rank)(*tensor.strides[-2::-1])
        corners = [(ctypes.c_int * (rank - 2))(*corner) for corner in (self.lower, self.upper)]
        steps = (ctypes.c_uint32 * rank)(1, *self.steps, 1)
        where = ctypes.c_void_p(device.address(tensor))
        function = device.runtime.cuTensorMapEncodeIm2col
        taken = self.channels, self.pixels
        error = function(
            made, FLOAT, rank, where, sizes, strides, *corners, *taken, steps, 0, self.swizzle, 0, 0
        )
        if error:
            raise ValueError(error)
        return made.raw

    def places(self) -> list[tuple[int, ...]]:
        """Of the filter's base, pixel by pixel: the spatial coordinates, and the image."""
        spatial = self.shape[1:-1]
        walks = [
            range(low, size + up, step)
            for low, size, up, step in zip(self.lower, spatial, self.upper, self.steps, strict=True)
        ]
        bases = [place[::-1] for place in product(*reversed(walks))]
        first = bases.index(self.at[1:-1])
        after = (first + number for number in range(self.pixels))
        return [(*bases[n % len(bases)], self.at[-1] + n // len(bases)) for n in after]

    def expected(self, tensor: Array) -> Array:
        rows = np.zeros((self.pixels, self.channels), "float32")
        for row, (*base, image) in zip(rows, self.places(), strict=True):
            place = [b + offset for b, offset in zip(base, self.offsets, strict=True)] + [image]
            if any(not 0 <= one < size for one, size in zip(place, self.shape[1:], strict=True)):
                continue
            pixel = tensor[tuple(place[::-1])]
            for k in range(self.channels):
                if 0 <= self.at[0] + k < self.shape[0]:
                    row[k] = pixel[self.at[0] + k]
        return rows


COLUMNS = {
    "a line": Column((8, 9, 3), (0,), (0,), (0, 2, 0), (0,), (1,)),
    "a padded line, beyond the last image": Column((12, 7, 2), (-2,), (2,), (4, -2, 1), (3,), (1,)),
    "every third": Column((8, 11, 3), (-1,), (-1,), (0, 5, 1), (2,), (3,)),
    "no padding": Column((16, 6, 5, 2), (0, 0), (-2, -2), (8, 0, 0, 0), (1, 2), (1, 1)),
    "a corner of the padding": Column((8, 6, 5, 3), (-1, -1), (-1, -1), (0, -1, -1, 0), (0, 0), (1, 1)),
    "the other corner": Column((8, 6, 5, 3), (-1, -1), (-1, -1), (0, 4, 3, 1), (2, 2), (1, 1)),
    "dilation by offsets": Column((8, 9, 8, 2), (-2, -2), (-2, -2), (0, 3, 1, 0), (4, 2), (1, 1)),
    "steps": Column((8, 9, 8, 2), (-1, -1), (-1, -1), (0, 3, -1, 0), (1, 2), (2, 2), 33),
    "steps that end before the corner": Column(
        (8, 8, 7, 3), (-1, 0), (-1, 0), (0, 2, 3, 0), (0, 1), (3, 3), 40
    ),
    "channels outside": Column((12, 6, 5, 2), (-1, -1), (1, 1), (8, 5, 0, 0), (1, 0), (1, 1)),
    "before the first channel": Column((12, 6, 5, 2), (0, 0), (0, 0), (-4, 0, 0, 1), (0, 0), (1, 1)),
    "a whole image more": Column((8, 4, 3, 2), (0, 0), (0, 0), (0, 3, 2, 1), (0, 0), (1, 1), 30),
    "swizzled": Column((32, 6, 5, 2), (-1, -1), (-1, -1), (0, 2, 2, 0), (2, 0), (1, 1), 24, 32, SWIZZLE_128B),
    "space": Column((8, 5, 4, 3, 2), (-1, -1, -1), (-1, -1, -1), (0, 3, 1, 1, 0), (2, 0, 1), (1, 1, 1), 50),
    "space in steps": Column(
        (8, 5, 6, 5, 2), (-1, 0, -1), (0, -1, 0), (0, 1, 2, -1, 0), (0, 1, 2), (2, 1, 2), 60
    ),
}


def launched(device: PtxDevice, column: Column, tensor: Array) -> Array:
    y = device.empty((column.pixels, column.channels))
    numbers = (y.size, *column.at, *column.offsets)
    shape = ((1, 1, 1), (128, 1, 1), y.nbytes)
    kernel = f"column{tensor.ndim}"
    device.launch_with(kernel, shape, column.encoded(device, tensor), y, *map(np.int32, numbers))
    return y


def unswizzled(rows: Array) -> Array:
    unit = np.arange(rows.nbytes // 16)
    plain: Array = rows.reshape(-1, 4)[unit ^ (unit >> 3 & 7)].reshape(rows.shape)
    return plain


@pytest.mark.parametrize("order", ORDERS[:2])
def test_columns(order: int) -> None:
    with Checked("tensors", order) as device:
        for name, column in COLUMNS.items():
            tensor = device.array(values(*column.shape[::-1]) + 3)
            rows = launched(device, column, tensor)
            made = unswizzled(rows) if column.swizzle else rows
            np.testing.assert_array_equal(made, column.expected(tensor), err_msg=name)
        assert device.findings() == []


def put_back(device: PtxDevice, column: Column) -> Array:
    tensor = device.array(np.full((2, 3, 4, 8), 0.5))
    shape, numbers = ((1, 1, 1), (128, 1, 1), 480), (120, *column.at[1:])
    device.launch_with("put_back", shape, column.encoded(device, tensor), *map(np.int32, numbers))
    return tensor


def test_pixels_are_put_back() -> None:
    column = Column((8, 4, 3, 2), (0, 0), (0, 0), (0, 2, 1, 0), (0, 0), (1, 1), 30, 4)
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        tensor = put_back(device, column)
        expected, pixels = np.full((2, 3, 4, 8), 0.5), np.arange(1, 121).reshape(30, 4)
        for pixel, (w, h, n) in zip(pixels, column.places(), strict=True):
            if 0 <= w < 4 and 0 <= h < 3 and n < 2:
                expected[n, h, w, :4] = pixel
                expected[n, h, w, 4:] += pixel
        np.testing.assert_array_equal(tensor, expected)
        assert device.findings() == []


def test_pixels_before_the_tensor_cannot_be_put_back() -> None:
    """An H200 stops at either store with an illegal instruction (2026-11-24), where a load takes zeros."""
    column = Column((8, 4, 3, 2), (-1, -1), (0, 0), (0, 2, -1, 0), (0, 0), (1, 1), 30, 4)
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        if isinstance(device, GpuDevice):
            pytest.skip("it would end this process's use of the GPU")
        put_back(device, column)
        found = [f for f in device.findings() if f["severity"] == "error"]
        assert [f["kind"] for f in found] == ["tensor-map"] * 2
        assert "begins at -1 of dimension 2, before the tensor" in found[0]["message"]


@pytest.mark.parametrize(
    ("at", "offsets", "words"),
    [
        (
            (0, 5, 0, 0),
            (0, 0),
            "begins at 5 of dimension 1; the bounding box of its tensor map goes from -1 to 4",
        ),
        ((0, 0, -2, 0), (0, 0), "begins at -2 of dimension 2"),
        ((0, 0, 0, 0), (0, 256), "256 elements off in dimension 2; in 4 dimensions it can be 0 to 255"),
    ],
)
def test_broken_columns(at: tuple[int, ...], offsets: tuple[int, ...], words: str) -> None:
    column = Column((8, 6, 5, 3), (-1, -1), (-1, -1), at, offsets, (1, 1))
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        launched(device, column, device.array(values(3, 5, 6, 8)))
        found = [f for f in device.findings() if f["severity"] == "error"]
        assert {(f["kind"], f["line"]) for f in found} == {("tensor-map", device.line("column4"))}
        assert words in found[0]["message"]


@pytest.mark.parametrize(
    "column",
    [
        Column((8, 6, 5, 3), (-129, 0), (0, 0), (), (), (1, 1)),
        Column((8, 6, 5, 3), (0, 0), (128, 0), (), (), (1, 1)),
        Column((8, 6, 5, 3), (0, 3), (0, -2), (), (), (1, 1)),
        Column((8, 6, 5, 3), (0, 0), (0, 0), (), (), (9, 1)),
        Column((8, 6, 5, 3), (0, 0), (0, 0), (), (), (1, 1), pixels=1025),
        Column((8, 6, 5, 3), (0, 0), (0, 0), (), (), (1, 1), channels=257),
        Column((64, 6, 5, 3), (0, 0), (0, 0), (), (), (1, 1), channels=64, swizzle=SWIZZLE_128B),
        Column((8, 6, 5, 4, 3), (-17, 0, 0), (0, 0, 0), (), (), (1, 1, 1)),
    ],
)
def test_maps_that_cuda_refuses(column: Column) -> None:
    with Checked("tensors", c_abi.ORDER_FORWARD) as device, pytest.raises(ValueError, match="1"):
        column.encoded(device, device.empty(column.shape[::-1]))


def test_boxes_take_every_second_element() -> None:
    """A tiled map with strides of elements: the box counts what is passed over, the copy what is taken."""
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        x, y = device.array(values(12, 9, 8)), device.empty(64)
        made = encode(device, x, (8, 8, 4), steps=(1, 2, 2))
        device.launch("cube", 1, 128, made, y, np.int32(0), np.int32(2), np.int32(1))
        expected = np.zeros((2, 4, 8), "float32")
        taken = x[1:5:2, 2:10:2]
        expected[:, : taken.shape[1]] = taken
        np.testing.assert_array_equal(y, expected.ravel())
        assert device.findings() == []
