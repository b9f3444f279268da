"""Kernels of `emulator/modern/handovers.cu`: each way to hand over shared memory, with and without a race."""

import re

import numpy as np
from device_library import Array
from modern_kernels import SOURCES, Checked

from agent.torch_shim import c_abi

NAME = "handovers"
KERNELS = re.findall(
    r"^(?:EXCHANGE|PAIR|RING|COPY|CLUSTER)\((\w+)", (SOURCES / f"{NAME}.cu").read_text(), re.MULTILINE
)
BLOCKS, THREADS, ROUNDS = 2, 128, 16
GIVEN = np.arange(THREADS // 2 * ROUNDS, dtype="int32") * 7 + 3
_RINGS = ("ring", "copies", "both", "shared_ring")
_CLUSTERS = ("blocks", "shared_ring")


def is_race(kernel: str) -> bool:
    return kernel.endswith("_race")


def expected(kernel: str) -> Array:
    """Return the correct output of a kernel."""
    blocks = GIVEN[: BLOCKS * THREADS].reshape(BLOCKS, THREADS)
    if kernel.startswith("blocks"):
        return blocks[::-1].ravel()
    if kernel.startswith("lanes"):
        return blocks.reshape(-1, 2)[:, ::-1].ravel()
    if kernel.startswith(_RINGS):
        return np.tile(np.roll(GIVEN.reshape(ROUNDS, -1).sum(0), -32), BLOCKS)
    return np.roll(blocks, -32, axis=1).ravel()


def launched(kernel: str, order: int = c_abi.ORDER_FORWARD) -> tuple[Array, set[str]]:
    """Launch a kernel and return its output and the kinds of the errors that the emulator finds."""
    with Checked(NAME, order) as device:
        given, out = device.array(GIVEN, "int32"), device.empty(BLOCKS * THREADS, "int32")
        device.cluster = (BLOCKS, 1, 1) if kernel.startswith(_CLUSTERS) else (0, 0, 0)
        device.launch(kernel, BLOCKS, THREADS, given, out)
        faults = {found["kind"] for found in device.findings() if found["severity"] == "error"}
        return out[: len(expected(kernel))].copy(), faults
