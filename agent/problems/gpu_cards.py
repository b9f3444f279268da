"""GPU facts for a kernel's author: units, memories, their limits, and features of the architecture.

Limits belong to the compute capability (CUDA C++ Programming Guide, "Compute Capabilities", technical
specifications per compute capability, and the tuning guides of Volta to Blackwell). The number of units and
cache sizes belong to the product: the data sheets named in `roofline`, and the white papers "NVIDIA H100
Tensor Core GPU Architecture", "NVIDIA A100 Tensor Core GPU Architecture", "NVIDIA Ada GPU Architecture",
"NVIDIA Ampere GA102 GPU Architecture", "NVIDIA Tesla V100", "NVIDIA Turing". Copy rates were measured on this
project's machines (`agent kernels bench`). Peaks are those of `roofline`. Nothing here measures or asks a
driver.
"""

from agent.problems.roofline import Gpu, find
from agent.records import Record

REGISTERS = 65_536
"""32-bit registers of a multiprocessor, for every architecture since Volta."""
MOST_REGISTERS = 255
"""Maximum registers per thread."""
WARP = 32


class Architecture(Record):
    """Limits of one compute capability."""

    capability: str
    """Compute capability as nvidia-smi prints it, such as `9.0`."""
    name: str
    warps: int
    """Maximum warps on a multiprocessor."""
    blocks: int
    """Maximum blocks on a multiprocessor."""
    shared_kb: int
    """Shared memory of a multiprocessor, in units of 1024 bytes."""
    block_shared_kb: int
    """Maximum dynamic shared memory of a block after opting in, in units of 1024 bytes."""
    offers: tuple[str, ...]


class Card(Record):
    """One GPU product: its architecture, peaks, multiprocessors and cache."""

    name: str
    architecture: Architecture
    peaks: Gpu
    multiprocessors: int
    l2_mb: float
    copy_gb_s: float | None
    """Copy bandwidth, read plus written; None if not measured in this project."""

    def warps(self, registers: int) -> int:
        """Return how many warps of a kernel with `registers` per thread fit on a multiprocessor.

        Each quarter of a multiprocessor has 16,384 registers, allocated to warps in units of 256 (CUDA
        occupancy calculator).
        """
        of_a_warp = -(-registers * WARP // 256) * 256
        return min(self.architecture.warps, 4 * (REGISTERS // 4 // of_a_warp)) if of_a_warp else 0


_ASYNC = "cp.async (16 bytes from global to shared memory without registers), L2 residency control"
_CLUSTERS = (
    "thread block clusters with distributed shared memory",
    "TMA bulk copies (cp.async.bulk) with mbarrier",
)
ARCHITECTURES = {
    architecture.capability: architecture
    for architecture in (
        Architecture(
            capability="7.0", name="Volta", warps=64, blocks=32, shared_kb=96, block_shared_kb=96,
            offers=("tensor cores: FP16 (wmma, mma.sync)",),
        ),
        Architecture(
            capability="7.5", name="Turing", warps=32, blocks=16, shared_kb=64, block_shared_kb=64,
            offers=("tensor cores: FP16, INT8 (mma.sync)",),
        ),
        Architecture(
            capability="8.0", name="Ampere", warps=64, blocks=32, shared_kb=164, block_shared_kb=163,
            offers=(_ASYNC, "tensor cores: TF32, BF16, FP16, FP64, INT8 (mma.sync)"),
        ),
        Architecture(
            capability="8.6", name="Ampere", warps=48, blocks=16, shared_kb=100, block_shared_kb=99,
            offers=(_ASYNC, "tensor cores: TF32, BF16, FP16, INT8 (mma.sync)"),
        ),
        Architecture(
            capability="8.9", name="Ada", warps=48, blocks=24, shared_kb=100, block_shared_kb=99,
            offers=(_ASYNC, "tensor cores: TF32, BF16, FP16, FP8, INT8 (mma.sync)"),
        ),
        Architecture(
            capability="9.0", name="Hopper", warps=64, blocks=32, shared_kb=228, block_shared_kb=227,
            offers=(
                _ASYNC, *_CLUSTERS,
                "tensor cores: TF32, BF16, FP16, FP8, FP64, INT8 (mma.sync; wgmma and setmaxnreg in code for "
                "sm_90a)",
            ),
        ),
        Architecture(
            capability="10.0", name="Blackwell", warps=64, blocks=32, shared_kb=228, block_shared_kb=227,
            offers=(
                _ASYNC, *_CLUSTERS,
                "tensor cores: TF32, BF16, FP16, FP8, FP6, FP4, INT8 (mma.sync; tcgen05 with tensor memory "
                "in code for sm_100a)",
            ),
        ),
    )
}  # fmt: skip
_PRODUCTS: dict[str, tuple[str, int, float, float | None]] = {
    "B200": ("10.0", 148, 126, None),
    "H200": ("9.0", 132, 50, 4260),
    "H100 PCIe": ("9.0", 114, 50, None),
    "H100": ("9.0", 132, 50, 3020),
    "A100 80GB": ("8.0", 108, 40, None),
    "A100": ("8.0", 108, 40, None),
    "L40S": ("8.9", 142, 96, None),
    "L4": ("8.9", 58, 48, None),
    "RTX 4090": ("8.9", 128, 72, None),
    "RTX 3090": ("8.6", 82, 6, None),
    "V100": ("7.0", 80, 6, None),
    "T4": ("7.5", 40, 4, None),
}
"""Products by their names in `roofline`: compute capability, multiprocessors, MB of L2, GB/s of a copy."""


def card(name: str) -> Card | None:
    """Return the card of a GPU as named by a user or the driver; None if it is not in the tables."""
    peaks = find(name)
    if peaks is None:
        return None
    capability, multiprocessors, l2_mb, copy_gb_s = _PRODUCTS[peaks.name]
    return Card(
        name=name, architecture=ARCHITECTURES[capability], peaks=peaks, multiprocessors=multiprocessors,
        l2_mb=l2_mb, copy_gb_s=copy_gb_s,
    )  # fmt: skip
