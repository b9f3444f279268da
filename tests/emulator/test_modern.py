"""What kernels for sm_80 to sm_90 use: right ones compute what numpy does, in every order, without a finding.

Sources in `modern/`; the broken ones among them: test_modern_broken.py.
"""

import numpy as np
import pytest
from device_library import Array
from modern_kernels import ORDERS, UINT32, Checked, encode, values
from ptx_library import NVCC, PtxDevice

from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")


@pytest.mark.parametrize("order", ORDERS)
def test_numbered_barriers(order: int) -> None:
    with Checked("barriers", order) as device:
        x, y = device.array(values(256)), device.empty(256)
        device.launch("hand_over", 1, 128, x, y)
        np.testing.assert_array_equal(y.reshape(4, 64), 2 * x.reshape(4, 64)[:, ::-1])
        device.launch("own_barriers", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128].reshape(2, 64), x[:128].reshape(2, 64)[:, ::-1])
        counts = device.empty(128, "int32")
        device.launch("counted", 1, 128, x, counts)
        assert set(counts.tolist()) == {(x[:128] > 0).sum()}
        device.launch("elected", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128], np.where(np.arange(128) % 32, x[:128], -x[:128]))
        assert device.findings() == []


@pytest.mark.parametrize("order", ORDERS)
def test_matrices(order: int) -> None:
    with Checked("matrices", order) as device:
        a, b = device.array(values(32, 64), "float16"), device.array(values(64, 16), "float16")
        c = device.empty((32, 16))
        device.launch("staged_product", 1, 128, a, b, c, np.int32(64))
        np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))
        x, other = device.array(values(16, 16), "float16"), device.array(values(16, 16) + 1, "float16")
        c, scaled = device.empty((16, 16)), device.empty((16, 16))
        device.launch("wmma_product", 1, 32, x, other, c, scaled)
        expected = 1 + x.astype("float32") @ other.T.astype("float32")
        np.testing.assert_array_equal(c, expected)
        np.testing.assert_array_equal(scaled, 2 * expected.T)
        i, j = device.array(values(8, 16) * 4, "int8"), device.array(values(16, 32) * 4, "int8")
        sums = device.empty((8, 32), "int32")
        device.launch("wmma_integers", 1, 32, i, j, sums)
        np.testing.assert_array_equal(sums, i.astype("int32") @ j.astype("int32"))
        y = device.empty((16, 16), "float16")
        device.launch("flipped", 1, 32, x, y)
        np.testing.assert_array_equal(y, x.T)
        assert device.findings() == []


@pytest.mark.parametrize("order", ORDERS)
def test_copies(order: int) -> None:
    with Checked("copies", order) as device:
        x, y = device.array(values(960)), device.empty(512)
        device.launch("in_and_out", 1, 128, x, y)
        np.testing.assert_array_equal(y, 2 * x[:512])
        device.launch("padded", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128], 7 * x[127::-1])
        device.launch("ring", 1, 128, x, y, np.int32(10))
        np.testing.assert_array_equal(y[:96], x.reshape(10, 96).sum(0)[::-1])
        device.launch("read_by_all", 1, 128, x, y, np.int32(10))
        np.testing.assert_array_equal(y[:96], x[:320].sum())
        device.launch("by_state", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128], x[:128].reshape(64, 2)[:, ::-1].ravel())
        sums = device.array(np.zeros(128))
        device.launch("added", 7, 128, x, sums)
        np.testing.assert_array_equal(sums, x[:896].reshape(7, 128).sum(0))
        device.launch("told", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128], x[127::-1])
        assert device.findings() == []


@pytest.mark.parametrize("order", ORDERS)
def test_clusters(order: int) -> None:
    with Checked("clusters", order) as device:
        x, y = device.array(values(1024)), device.empty(1024)
        device.cluster = (4, 1, 1)
        device.launch("neighbours", 16, 64, x, y)
        blocks = x.reshape(4, 4, 64)
        expected = np.roll(blocks, -1, 1)[:, :, ::-1] + 100 * np.arange(4)[None, :, None]
        np.testing.assert_array_equal(y, expected.ravel())
        device.launch("exchanged", 16, 64, x, y)
        np.testing.assert_array_equal(y, np.repeat(blocks[:, :, 0].sum(1), 256))
        device.cluster = (0, 0, 0)  # then each block is one
        device.launch("neighbours", 16, 64, x, y)
        np.testing.assert_array_equal(y, x.reshape(16, 64)[:, ::-1].ravel())
        device.cluster = (2, 1, 1)
        numbers = device.array(np.random.default_rng(1).integers(0, 16, 1000), "int32")
        bins = device.empty(16, "int32")
        device.launch("histogram", 2, 64, numbers, bins, np.int32(1000))
        np.testing.assert_array_equal(bins, np.bincount(numbers, minlength=16))
        device.launch("multicast", 2, 64, x, y, np.int32(5))
        np.testing.assert_array_equal(y[:128], np.tile(x.reshape(16, 64)[:5].sum(0), 2))
        device.launch("by_flag", 2, 64, x, y)
        np.testing.assert_array_equal(y[:128], np.concatenate([x[:64], np.tile([1, 2], 32)]))
        device.cluster = (4, 1, 1)
        device.launch("handed_on", 4, 64, x, y, np.int32(5))
        np.testing.assert_array_equal(y[:256], np.roll(x[:256].reshape(4, 64), 5, 0)[:, ::-1].ravel())
        assert device.findings() == []


@pytest.mark.parametrize("order", ORDERS)
def test_tensor_maps(order: int) -> None:
    with Checked("tensors", order) as device:
        x, y = device.array(values(40, 100)), device.array(np.zeros((40, 100)))
        device.launch("moved", (4, 3), 128, encode(device, x, (32, 16)), encode(device, y, (32, 16)))
        np.testing.assert_array_equal(y, 1 + np.pad(x, ((0, 0), (8, 0)))[:, :100])
        sums = device.array(np.ones((16, 40)))
        device.launch("added_up", (4, 3), 128, encode(device, x, (32, 16)), encode(device, sums, (32, 16)))
        boxes = np.pad(x, ((0, 8), (0, 28))).reshape(3, 16, 4, 32).sum((0, 2))
        expected = np.ones((16, 40), "float32")
        expected[2:, 4:36] += boxes[:14]
        np.testing.assert_array_equal(sums, expected)
        cube, part = device.array(values(5, 6, 12)), device.empty(64)
        device.launch(
            "cube", 1, 128, encode(device, cube, (8, 4, 2)), part, np.int32(-4), np.int32(4), np.int32(4)
        )
        padded = np.zeros((2, 4, 8), "float32")
        padded[:1, :2, 4:] = cube[4:, 4:, :4]
        np.testing.assert_array_equal(part, padded.ravel())
        assert device.findings() == []


@pytest.mark.parametrize("order", ORDERS)
def test_libcu(order: int) -> None:
    """cuda::barrier, cuda::pipeline and cuda::ptx as NVIDIA's own headers have them."""
    with Checked("library", order) as device:
        x, y = device.array(values(1280)), device.empty(512)
        device.launch("bulk", 1, 128, x, y)
        np.testing.assert_array_equal(y[:256], 2 * x[:256])
        device.launch("pipe", 1, 128, x, y, np.int32(10))
        np.testing.assert_array_equal(y[:128], x.reshape(10, 128).sum(0)[::-1])
        device.launch("roles", 1, 128, x, y, np.int32(10))
        np.testing.assert_array_equal(y[:64], x[:640].reshape(10, 64).sum(0)[::-1])
        device.launch("wrappers", 1, 128, x, y)
        np.testing.assert_array_equal(y[:128], x[127::-1])
        tensor = device.array(values(40, 100))
        device.launch("map2d", 1, 128, encode(device, tensor, (32, 16)), y)
        np.testing.assert_array_equal(y.reshape(16, 32), tensor[:16, :32])
        assert device.findings() == []


@pytest.mark.parametrize("swizzle", [1, 2, 3])
def test_swizzles(swizzle: int) -> None:
    """Units of 16 bytes change places by the bits 7 to 9 of their address (CUDA Programming Guide)."""
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        words = 4 << swizzle
        x = device.array(np.arange(16 * words).reshape(16, words), "uint32")
        y = device.empty(16 * words, "uint32")
        shape = ((1, 1, 1), (128, 1, 1), x.nbytes)
        device.launch_with(
            "dumped", shape, encode(device, x, (words, 16), UINT32, swizzle), y, np.int32(x.nbytes)
        )
        unit = np.arange(x.nbytes // 16)
        moved = unit ^ (unit >> 3 & (1 << swizzle) - 1)
        np.testing.assert_array_equal(y.reshape(-1, 4)[moved], x.reshape(-1, 4))
        assert device.findings() == []


@pytest.mark.parametrize(("shape", "box"), [((8, 6), (4, 8)), ((8, 8), (512, 1)), ((8, 8), (2, 8))])
def test_maps_that_cuda_refuses(shape: tuple[int, int], box: tuple[int, int]) -> None:
    with Checked("tensors", c_abi.ORDER_FORWARD) as device, pytest.raises(AssertionError):
        encode(device, device.empty(shape), box)


def launched(device: PtxDevice, kernel: str) -> tuple[Array, Array]:
    x, y = device.array(values(16, 32)), device.empty(128)
    device.launch(kernel, 1, 128, encode(device, x, (32, 16)), y)
    return x, y


BROKEN_MAPS = {
    "box_counts_whole": ("deadlock", "-1024 bytes"),
    "crooked": ("misaligned-access", "not a multiple of 128 bytes"),
    "small_tile": ("shared-out-of-bounds-write", "past the end of"),
    "stored_before": ("tensor-map", "begins at -4 of dimension 0"),
    "between_units": ("misaligned-access", "not a multiple of 16 bytes"),
    "no_map": ("tensor-map", "cuTensorMapEncodeTiled"),
    "other_mode": ("tensor-map", "in 4 dimensions, by im2col, by a tensor map that was made for 2, tiled"),
}
"""With the finding of each, and words of it."""


@pytest.mark.parametrize("kernel", BROKEN_MAPS)
def test_broken_maps(kernel: str) -> None:
    finding, words = BROKEN_MAPS[kernel]
    with Checked("tensors", c_abi.ORDER_FORWARD) as device:
        launched(device, kernel)
        found = [f for f in device.findings() if f["severity"] == "error"]
        assert {(f["kind"], f["line"]) for f in found} == {(finding, device.line(kernel))}
        assert words in found[0]["message"]
