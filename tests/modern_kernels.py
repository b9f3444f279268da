"""Kernels of `emulator/modern`: built from PTX, run under checks in the orders that a draw may choose."""

from functools import cache
from pathlib import Path

import numpy as np
from device_library import Array
from ptx_library import PtxDevice, from_cuda

from agent.torch_shim import c_abi

SOURCES = Path(__file__).parent / "emulator" / "modern"
ORDERS = [c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED, c_abi.ORDER_INTERLEAVED]


@cache
def built(name: str) -> PtxDevice:
    source = SOURCES / f"{name}.cu"
    return PtxDevice(source, from_cuda(source), checked=True)


class Checked:
    """A device under checks, in one of the orders that a draw may choose."""

    def __init__(self, source: str, order: int) -> None:
        self.device = built(source)
        self._order = order

    def __enter__(self) -> PtxDevice:
        self.device.reset()
        self.device.runtime.kw_draw(c_abi.MEMORY_ONES, self._order, 11)
        self.device.runtime.kw_check(1)
        return self.device

    def __exit__(self, *raised: object) -> None:
        self.device.runtime.kw_check(0)
        self.device.runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
        self.device.cluster = (0, 0, 0)
        self.device.reset()


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-8, 8, shape) / 4
