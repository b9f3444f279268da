"""Products of a warpgroup (wgmma): right kernels in every order of threads, and broken ones by name."""

from dataclasses import dataclass

import numpy as np
import pytest
from device_library import Array
from modern_kernels import HALF, ORDERS, SWIZZLE_128B, Checked, encode, values
from ptx_library import NVCC, PtxDevice

from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")


def maps(device: PtxDevice, a: Array, b: Array) -> tuple[bytes, bytes]:
    return encode(device, a, (64, 64), HALF, SWIZZLE_128B), encode(device, b, (64, 32), HALF, SWIZZLE_128B)


@pytest.mark.parametrize("order", ORDERS)
def test_right_ones(order: int) -> None:
    with Checked("warpgroups", order) as device:
        depth = 512
        a, b = (device.array(values(rows, depth), "float16") for rows in (64, 32))
        expected = a.astype("float32") @ b.astype("float32").T
        c = device.empty((64, 32))
        device.launch("by_threads", 1, 128, a, b, c, np.int32(depth))
        np.testing.assert_array_equal(c, expected)
        device.launch_with(
            "pipelined", ((1, 1, 1), (256, 1, 1), 3 * 12288), *maps(device, a, b), c, np.int32(depth)
        )
        np.testing.assert_array_equal(c, expected)
        a, b = device.array(a[:, :64], "float16"), device.array(b[:, :64], "float16")
        device.launch("from_registers", 1, 128, a, b, c, np.int32(64))
        weights = np.repeat([8, 4, 2, 1], 16).astype("float32")
        np.testing.assert_array_equal(c, (a * weights) @ b.astype("float32").T)
        assert device.findings() == []


@dataclass(frozen=True)
class Broken:
    kernel: str
    finding: str
    words: str
    severity: str = "error"
    also: tuple[str, ...] = ()
    by_maps: bool = False
    at: str = ""
    """The mark of the line, where it is not the kernel's."""

    def __str__(self) -> str:
        return self.kernel


BROKEN = [
    Broken("read_early", "product-not-waited", "Uses a register of a matrix product", "warning"),
    Broken("waits_for_one", "product-not-waited", "the last wgmma.wait_group has left out its group"),
    Broken("factor_changed", "product-not-waited", "Uses a register of a matrix product", "warning"),
    Broken("no_fence", "product-without-fence", "without wgmma.fence", "warning", at="multiply"),
    Broken("scaled_late", "product-without-fence", "without wgmma.fence", "warning", at="multiply"),
    Broken("refilled", "product-not-waited", "may still read", also=("shared-race",)),
    Broken("unseen", "missing-proxy-fence", "without fence.proxy.async", at="multiply"),
    Broken("no_barrier", "shared-race", "with no", also=("shared-uninitialised-read",), at="multiply"),
    Broken(
        "three_warps", "deadlock", "96 of the 128 threads of a warpgroup have come to wgmma", at="multiply"
    ),
    Broken("half_written", "shared-uninitialised-read", "no thread of this block", at="multiply"),
    Broken("too_far", "shared-out-of-bounds-read", "past the end of", at="multiply"),
    Broken("left_behind", "product-not-waited", "The block ends", "warning", at="multiply"),
    Broken("other_swizzle", "matrix-layout", "swizzle: none", "warning", by_maps=True, at="multiply"),
    Broken("given_back_early", "product-not-waited", "may still read", by_maps=True, at="load"),
]


def launched(device: PtxDevice, broken: Broken) -> tuple[Array, Array, Array]:
    """Both factors and what came out."""
    depth = 128 if broken.by_maps else 16
    a, b = (device.array(values(rows, depth), "float16") for rows in (64, 32))
    c = device.array(np.ones((64, 32)))
    given = maps(device, a, b) if broken.by_maps else (a, b)
    shape = ((1, 1, 1), (128, 1, 1), 12288 if broken.by_maps else 0)
    device.launch_with(broken.kernel, shape, *given, c, np.int32(depth))
    return a, b, c


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_broken_ones(broken: Broken) -> None:
    with Checked("warpgroups", c_abi.ORDER_FORWARD) as device:
        launched(device, broken)
        findings = device.findings()
        line = device.line(broken.at or broken.kernel)
    wanted = (broken.finding, broken.severity, line)
    matching = [found for found in findings if (found["kind"], found["severity"], found["line"]) == wanted]
    assert matching, findings
    assert broken.words in matching[0]["message"]
    errors = {found["kind"] for found in findings if found["severity"] == "error"}
    assert errors <= {broken.finding, *broken.also}
