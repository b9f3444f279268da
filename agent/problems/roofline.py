"""Lower bound on a problem's time on a named GPU.

The numbers come from the makers' data sheets: dense (without sparsity), at boost clocks. A real kernel stays
below them. Nothing here measures anything.

Sources, all NVIDIA: the data sheets "H200 Tensor Core GPU" (4.8 TB/s, 67 TFLOP/s FP32), "H100 Tensor Core
GPU", "A100 Tensor Core GPU", "Blackwell" (HGX B200), "L4", "L40S", "V100" and "T4"; the white papers "Ada GPU
architecture" (RTX 4090) and "GA102 GPU architecture" (RTX 3090). Tensor-core figures that are printed with
sparsity are halved.
"""

from collections.abc import Mapping
from types import MappingProxyType

from agent.records import Operation, Record, Trace

HALF_PRODUCTS = 3
"""Number of fp16 products that replace one product of float32 matrices."""


class Gpu(Record):
    """Peaks of one GPU; None if the hardware has no such unit."""

    name: str
    bandwidth_gb_s: float
    """Device memory bandwidth in 10^9 bytes per second."""
    fp32_tflops: float
    """Peak outside the tensor cores in 10^12 operations per second; a fused multiply-add counts two."""
    tf32_tflops: float | None
    bf16_tflops: float | None
    """Tensor cores with FP32 accumulation; the FP16 peak if there is no bf16 unit."""


GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        name: Gpu(name=name, bandwidth_gb_s=bandwidth, fp32_tflops=fp32, tf32_tflops=tf32, bf16_tflops=bf16)
        for name, bandwidth, fp32, tf32, bf16 in (
            ("B200", 7700, 75, 1100, 2250),
            ("H200", 4800, 67, 494.5, 989.5),
            ("H100 PCIe", 2000, 51, 378, 756),
            ("H100", 3350, 67, 494.5, 989.5),
            ("A100 80GB", 2039, 19.5, 156, 312),
            ("A100", 1555, 19.5, 156, 312),
            ("L40S", 864, 91.6, 183, 362),
            ("L4", 300, 30.3, 60, 121),
            ("RTX 4090", 1008, 82.6, 82.6, 165.2),
            ("RTX 3090", 936, 35.6, 35.6, 71),
            ("V100", 900, 15.7, None, 125),
            ("T4", 320, 8.1, None, 65),
        )
    }
)


def find(name: str) -> Gpu | None:
    """Return the entry for a GPU as the driver or a user names it (`NVIDIA A100-SXM4-80GB`), None if unknown.

    Every word of an entry must occur in the name as a word. The first matching entry wins, so the more
    specific ones come first in the table.
    """
    words = set(name.upper().replace("-", " ").replace("_", " ").split())
    return next((gpu for key, gpu in GPUS.items() if set(key.upper().split()) <= words), None)


def floor_ms(trace: Trace, gpu: Gpu) -> float:
    """Return the least time in milliseconds that `gpu` needs for this problem: the roofline bound.

    The bound is the larger of two times: minimum traffic over bandwidth, and arithmetic over the peak of each
    operation's dtype. TF32 is another precision than the reference states, but three half-precision products
    reach float32's accuracy (Ootomo and Yokota, arXiv 2203.03341). Float32 products therefore count at a
    third of that peak if it is the higher one. Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.
    """
    memory = trace.min_bytes / (gpu.bandwidth_gb_s * 1e9)
    arithmetic = sum(operation.flops / _peak(operation, gpu) for operation in trace.operations)
    return max(memory, arithmetic) * 1e3


def _peak(operation: Operation, gpu: Gpu) -> float:
    dtypes = {operand.dtype for operand in operation.inputs}
    if dtypes and dtypes <= {"float16", "bfloat16"} and gpu.bf16_tflops is not None:
        return gpu.bf16_tflops * 1e12
    return (product_tflops(gpu) if _is_product(operation) else gpu.fp32_tflops) * 1e12


def product_tflops(gpu: Gpu) -> float:
    """Return the peak of float32 matrix products, in TFLOP/s of float32 operations."""
    return max(gpu.fp32_tflops, (gpu.bf16_tflops or 0.0) / HALF_PRODUCTS)


def _is_product(operation: Operation) -> bool:
    """Return True for a product or convolution: only these need more than one FLOP per element read."""
    return operation.flops > sum(spec.elements for spec in operation.inputs)
