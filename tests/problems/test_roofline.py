"""Floors in milliseconds from a trace and the table of GPUs."""

import pytest

from agent.problems import roofline
from agent.records import Operation, TensorSpec, Trace


def trace(dtype: str, flops: int, min_bytes: int) -> Trace:
    x = TensorSpec(shape=(4,), dtype=dtype)
    operation = Operation(
        op="mm",
        overload="aten.mm.default",
        inputs=(x, x),
        outputs=(x,),
        attributes={},
        flops=flops,
        bytes=min_bytes,
    )
    return Trace(
        operations=(operation,),
        inputs=(x, x),
        init_inputs=(),
        outputs=(x,),
        state=(),
        flops=flops,
        min_bytes=min_bytes,
    )


@pytest.mark.parametrize(
    ("dtype", "flops", "min_bytes", "floor"),
    [
        ("float32", 10**6, 4_800_000_000, 1.0),
        ("float32", 989_500_000_000 // 3, 8, 1.0),
        ("bfloat16", 989_500_000_000, 8, 1.0),
        ("float16", 0, 9_600_000_000, 2.0),
    ],
    ids=["memory", "three products of halves", "tensor cores", "half memory"],
)
def test_the_floor_is_the_tighter_of_memory_and_arithmetic(
    dtype: str, flops: int, min_bytes: int, floor: float
) -> None:
    assert roofline.floor_ms(trace(dtype, flops, min_bytes), roofline.GPUS["H200"]) == pytest.approx(floor)


def test_what_is_no_product_has_the_fp32_peak() -> None:
    count = 67 * 10**9
    x = TensorSpec(shape=(count,), dtype="float32")
    plain = trace("float32", 0, 8)
    added = plain.operations[0].model_copy(update={"inputs": (x,), "flops": count})
    found = roofline.floor_ms(plain.model_copy(update={"operations": (added,)}), roofline.GPUS["H200"])
    assert found == pytest.approx(1.0)


def test_a_gpu_with_slow_tensor_cores_multiplies_without_them() -> None:
    assert roofline.product_tflops(roofline.GPUS["RTX 3090"]) == 35.6
    assert roofline.product_tflops(roofline.GPUS["H200"]) == pytest.approx(989.5 / 3)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("h200", "H200"),
    ],
)
def test_gpus_are_found_as_the_driver_names_them(name: str, key: str) -> None:
    assert roofline.find(name) == roofline.GPUS[key]


def test_an_unknown_gpu_has_no_entry() -> None:
    assert roofline.find("NVIDIA GeForce GTX 1080") is None
    assert roofline.find("") is None


def test_peaks_are_in_plausible_order() -> None:
    for gpu in roofline.GPUS.values():
        assert gpu.fp32_tflops <= (gpu.tf32_tflops or gpu.fp32_tflops) <= (gpu.bf16_tflops or 1e9)
