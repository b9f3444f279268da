"""Kernels of `emulator/modern`, built from PTX and run under checks in every order that a draw may use."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
from device_library import Array
from modern_gpu import on_gpu
from ptx_library import PtxDevice, from_cuda

from agent.torch_shim import c_abi

SOURCES = Path(__file__).parent / "emulator" / "modern"
ORDERS = [c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED, c_abi.ORDER_INTERLEAVED]


@cache
def built(name: str) -> PtxDevice:
    source = SOURCES / f"{name}.cu"
    arch = "sm_90a" if name in ("warpgroups", "gemms") else "sm_90"
    return PtxDevice(source, from_cuda(source, arch=arch), checked=True)


class Checked:
    """Context that gives a device with checks and a thread order; with --on-gpu the GPU instead."""

    on_gpu = False

    def __init__(self, source: str, order: int) -> None:
        self.device = on_gpu(source) if self.on_gpu else built(source)
        self._order = order

    def __enter__(self) -> PtxDevice:
        self.device.reset()
        if self.on_gpu:
            return self.device
        self.device.runtime.kw_draw(c_abi.MEMORY_ONES, self._order, 11)
        self.device.runtime.kw_check(1)
        return self.device

    def __exit__(self, *raised: object) -> None:
        if not self.on_gpu:
            self.device.runtime.kw_check(0)
            self.device.runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
        self.device.cluster = (0, 0, 0)
        self.device.reset()


HALF, FLOAT, UINT32 = 6, 7, 2
NO_SWIZZLE, SWIZZLE_128B = 0, 3


def encode(
    device: PtxDevice,
    tensor: Array,
    box: tuple[int, ...],
    kind: int = FLOAT,
    swizzle: int = NO_SWIZZLE,
    steps: tuple[int, ...] = (),
) -> bytes:
    """Return the CUtensorMap of a row-major tensor. `box` and `steps` list the last dimension first."""
    rank, made = tensor.ndim, ctypes.create_string_buffer(128)
    sizes = (ctypes.c_uint64 * rank)(*tensor.shape[::-1])
    strides = (ctypes.c_uint64 * rank)(*tensor.strides[-2::-1])
    boxes, ones = (ctypes.c_uint32 * rank)(*box), (ctypes.c_uint32 * rank)(*(steps or [1] * rank))
    where = ctypes.c_void_p(device.address(tensor))
    function = device.runtime.cuTensorMapEncodeTiled
    assert function(made, kind, rank, where, sizes, strides, boxes, ones, 0, swizzle, 0, 0) == 0
    return made.raw


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-8, 8, shape) / 4
