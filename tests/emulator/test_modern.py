"""What kernels for sm_80 to sm_90 use: right ones compute what numpy does, broken ones get their finding.

Sources in `modern/`. A broken kernel holds one fault, on the line with "here: " and its name.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_library import Array
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")
SOURCES = Path(__file__).parent / "modern"
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
        device.launch("ring", 1, 128, x, y, np.int32(10))
        np.testing.assert_array_equal(y[:96], x.reshape(10, 96).sum(0)[::-1])
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
        device.cluster = (2, 1, 1)
        numbers = device.array(np.random.default_rng(1).integers(0, 16, 1000), "int32")
        bins = device.empty(16, "int32")
        device.launch("histogram", 2, 64, numbers, bins, np.int32(1000))
        np.testing.assert_array_equal(bins, np.bincount(numbers, minlength=16))
        device.launch("multicast", 2, 64, x, y, np.int32(5))
        np.testing.assert_array_equal(y[:128], np.tile(x.reshape(16, 64)[:5].sum(0), 2))
        assert device.findings() == []


@dataclass(frozen=True)
class Broken:
    source: str
    kernel: str
    finding: str
    words: str
    threads: int = 128
    severity: str = "error"
    also: tuple[str, ...] = ()
    more: tuple[int, ...] = ()
    blocks: int = 1
    """All in one cluster."""

    def __str__(self) -> str:
        return self.kernel


BROKEN = [
    Broken("barriers", "pairs_mixed_up", "shared-race", "which thread", also=("shared-uninitialised-read",)),
    Broken("barriers", "never_empty", "deadlock", "64 of 128 threads have come to barrier 2 (line"),
    Broken("barriers", "refilled_early", "shared-race", "reads byte"),
    Broken(
        "barriers", "counts_differ", "named-barrier", "for 96 threads here and for 64", also=("deadlock",)
    ),
    Broken("barriers", "no_whole_warps", "named-barrier", "no multiple of the warp size", more=(40,)),
    Broken("barriers", "sixteenth", "named-barrier", "barriers 0 to 15", more=(16,)),
    Broken(
        "matrices",
        "loaded_early",
        "shared-uninitialised-read",
        "no thread of this block",
        64,
        also=("shared-race",),
    ),
    Broken(
        "matrices",
        "half_filled",
        "shared-uninitialised-read",
        "which no thread of this block has written",
        32,
    ),
    Broken("matrices", "crooked_rows", "misaligned-access", "not a multiple of 16 bytes", 32),
    Broken("matrices", "beyond_the_tile", "shared-out-of-bounds-read", "past the end of", 32),
    Broken("matrices", "overwritten_early", "shared-race", "overwrites", 64),
    Broken("matrices", "wide_stride", "global-out-of-bounds-read", "Reads 2 bytes", 32),
    Broken("copies", "not_waited", "async-copy-not-waited", "no thread has waited for the phase"),
    Broken("copies", "one_warp_waits", "async-copy-not-waited", "bulk copy"),
    Broken("copies", "wrong_parity", "async-copy-not-waited", "no thread has waited for the phase"),
    Broken("copies", "never_full", "deadlock", "its phase 0 lacks 0 arrivals and 512 bytes"),
    Broken("copies", "refilled", "async-copy-not-waited", "bulk copy", also=("shared-race",)),
    Broken("copies", "no_proxy_fence", "missing-proxy-fence", "without fence.proxy.async"),
    Broken("copies", "source_reused", "async-copy-not-waited", "may still read"),
    Broken("copies", "odd_size", "misaligned-access", "multiples of 16 bytes", more=(100,)),
    Broken("copies", "beyond", "global-out-of-bounds-read", "Reads 512 bytes", more=(512,)),
    Broken("copies", "never_made", "mbarrier-misuse", "mbarrier.init has not made"),
    Broken(
        "copies", "too_many", "mbarrier-misuse", "Arrives 2 times at an mbarrier whose phase waits for 1 more"
    ),
    Broken("copies", "left_behind", "async-copy-not-waited", "The block ends while"),
    Broken("clusters", "not_met", "cluster-peer-gone", "has not begun", 64, blocks=2),
    Broken(
        "clusters",
        "left_early",
        "cluster-peer-gone",
        "has returned",
        64,
        blocks=2,
        also=("global-race-between-blocks",),
    ),
    Broken(
        "clusters", "half_comes", "deadlock", "96 of 128 threads have come to barrier.cluster", 64, blocks=2
    ),
    Broken(
        "clusters",
        "peer_unwritten",
        "shared-uninitialised-read",
        "no thread of this block",
        64,
        blocks=2,
        also=("global-race-between-blocks",),
    ),
    Broken("clusters", "no_such_rank", "cluster-peer-gone", "block 2 of a cluster of 2", 64, blocks=2),
    Broken(
        "clusters",
        "not_arrived",
        "cluster-barrier",
        "without having arrived",
        64,
        blocks=2,
        also=("global-race-between-blocks",),
    ),
    Broken("matrices", "half_a_warp", "warp-op-divergent", "reached only by lanes 0x0000ffff", 32, "warning"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_broken(broken: Broken) -> None:
    with Checked(broken.source, c_abi.ORDER_FORWARD) as device:
        # Exactly one tile: a read beyond it is one beyond the allocation.
        halves = broken.source == "matrices"
        size = 256 if broken.kernel == "wide_stride" else 512
        x = device.array(values(size), "float16" if halves else "float32")
        device.cluster = (broken.blocks, 1, 1)
        device.launch(
            broken.kernel, broken.blocks, broken.threads, x, device.empty(512), *map(np.int32, broken.more)
        )
        findings = device.findings()
        line = device.line(broken.kernel)
        other = next(
            (
                n
                for n, text in enumerate(device.source.read_text().splitlines(), 1)
                if text.endswith(f"// there: {broken.kernel}")
            ),
            None,
        )
    matching = [
        found
        for found in findings
        if (found["kind"], found["severity"], found["line"]) == (broken.finding, broken.severity, line)
        and broken.words in found["message"]
        and (other is None or f"line {other}" in found["message"])
    ]
    assert matching, findings
    assert matching[0]["kernel"] == broken.kernel
    assert {found["kind"] for found in findings if found["severity"] == "error"} <= {
        broken.finding,
        *broken.also,
    }
