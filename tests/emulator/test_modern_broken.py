"""Broken kernels for sm_80 to sm_90: each gets its finding, on the line with "here: " and its name."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from device_library import Array
from modern_kernels import Checked, values
from ptx_library import NVCC, PtxDevice

from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")


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
    Broken("copies", "refilled_unfenced", "missing-proxy-fence", "overwrites next", severity="warning"),
    Broken("copies", "no_proxy_fence", "missing-proxy-fence", "without fence.proxy.async"),
    Broken("copies", "source_reused", "async-copy-not-waited", "may still read"),
    Broken("copies", "odd_size", "misaligned-access", "multiples of 16 bytes", more=(100,)),
    # Where no memory follows the tensor, which is the layout's matter, the read itself fails as well.
    Broken(
        "copies",
        "beyond",
        "global-out-of-bounds-read",
        "Reads 512 bytes",
        more=(512,),
        also=("illegal-address",),
    ),
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
    Broken(
        "clusters", "met_at_home", "shared-race", "Thread 0 of block 0 of the cluster reads", 64, blocks=2
    ),
    Broken("clusters", "relaxed_arrival", "shared-race", "with no barrier of the cluster", 64, blocks=2),
    Broken("clusters", "written_again", "shared-race", "of block 1 read in", 64, blocks=2),
    Broken(
        "clusters", "both_write", "shared-race", "in the shared memory of block 0, which thread", 64, blocks=2
    ),
    Broken("clusters", "may_be_gone", "cluster-peer-gone", "may have returned by then", 64, blocks=2),
    Broken("clusters", "kept_pointer", "cluster-peer-gone", "which has returned", 64, blocks=2),
    Broken("matrices", "half_a_warp", "warp-op-divergent", "reached only by lanes 0x0000ffff", 32),
]


def launched(device: PtxDevice, broken: Broken) -> tuple[Array, Array]:
    """What went in and what came out."""
    # Exactly one tile: a read beyond it is one beyond the allocation.
    size = 256 if broken.kernel == "wide_stride" else 512
    x = device.array(values(size), "float16" if broken.source == "matrices" else "float32")
    y = device.empty(512)
    device.cluster = (broken.blocks, 1, 1)
    device.launch(broken.kernel, broken.blocks, broken.threads, x, y, *map(np.int32, broken.more))
    return x, y


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_broken(broken: Broken) -> None:
    with Checked(broken.source, c_abi.ORDER_FORWARD) as device:
        launched(device, broken)
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


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_it_stands_on_the_page(broken: Broken) -> None:
    page = (Path(__file__).parents[2] / "docs" / "emulator-corpus.md").read_text()
    assert f"| `{broken.source}.{broken.kernel}` | `{broken.finding}` |" in page
