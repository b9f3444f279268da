"""matmul_fp32x3 in one launch, from its PTX: whatever block comes first, whatever operands lie how."""

import ctypes
import struct
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_library import Array, build_runtime
from ptx_library import NVCC, PtxDevice, from_cuda

from agent.kernels.matmul_fp32x3.product import FORWARD, PARTS, PRECISIONS
from agent.torch_shim import c_abi

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: PTX cannot be made from CUDA here")

CSRC = Path(__file__).parents[3] / "agent" / "kernels" / "matmul_fp32x3" / "csrc"
DEVICE = """
#include "at_once_sm90.cuh"
using namespace kernelwright::matmul;
template __global__ void kernelwright::matmul::matmul_at_once<false>(const __grid_constant__ Product);
template __global__ void kernelwright::matmul::matmul_at_once<true>(const __grid_constant__ Product);
"""
HOST = """
#include "launch.cuh"
using namespace kernelwright::matmul;
extern "C" int64_t workspace_bytes(const Forward* args, int64_t sms) {
    const Plan plan = plan_of(*args, sms);
    return plan.at_once ? plan.bytes : -1;
}
// The kernel's argument, where its two counters stand, and its blocks, threads and bytes of shared memory.
extern "C" int told(const Forward* args, int64_t sms, Product* product, int64_t* launch) {
    Plan plan = plan_of(*args, sms);
    *product = product_of(*args, plan);
    launch[0] = blocks_at_once(plan.both, plan.tiles, sms), launch[1] = kOnceThreads, launch[2] = kOnceSharedBytes;
    launch[3] = reinterpret_cast<unsigned char*>(product->ended) - static_cast<unsigned char*>(args->workspace);
    return sizeof(Product);
}
"""
SMS = 16
EXACT = 2.0**-20
MOST_SHARED = 8
"""cudaFuncAttributeMaxDynamicSharedMemorySize."""
SIZES = [
    (1, 1, 1, 40), (1, 130, 9, 700), (1, 256, 140, 100), (1, 3, 300, 129), (3, 20, 24, 70), (1, 300, 5, 64),
]  # fmt: skip
"""Batch, rows, columns, depth: what sixteen SMs have room for."""
ORDERS = [c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED]


@cache
def device() -> PtxDevice:
    source = PtxDevice.scratch("matmul_at_once.cu", DEVICE)
    return PtxDevice(source, from_cuda(source, [CSRC], "sm_90a"), checked=True)


@cache
def host() -> ctypes.CDLL:
    assert NVCC is not None
    source = PtxDevice.scratch("matmul_at_once_host.cu", HOST)
    library = build_runtime().parent / "matmul_at_once_host.so"
    command = [
        NVCC, "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static", "-arch=sm_90",
        f"-I{CSRC}", str(source), "-o", str(library),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=240)
    loaded = ctypes.CDLL(str(library))
    loaded.workspace_bytes.restype = ctypes.c_int64
    return loaded


def laid(values: Array, transposed: bool) -> tuple[Array, tuple[int, int, int]]:
    """In device memory, with the steps of elements."""
    batch, rows, columns = values.shape
    if not transposed:
        return device().array(values), (rows * columns if batch > 1 else 0, columns, 1)
    return device().array(values.transpose(0, 2, 1).copy()), (rows * columns if batch > 1 else 0, 1, rows)


def product(
    a: Array, b: Array, lies: str = "nn", precision: str = "fp32x3", c: Array | None = None,
    parts: tuple[str, str, str] = ("whole", "whole", "whole"),
) -> Array:  # fmt: skip
    batch, m, k = a.shape
    n = b.shape[2]
    y = device().empty((batch, m, n))
    y[...] = np.nan
    (of_a, a_steps), (of_b, b_steps) = (
        laid(v, lie == "t") for v, lie in zip((a, b), lies, strict=True)
    )
    of_c, c_steps = (None, (0, 0, 0)) if c is None else laid(c, False)
    steps = (*a_steps, *b_steps, *c_steps, PRECISIONS[precision], *(PARTS[part] for part in parts), 1.0, 1.0)
    sms = ctypes.c_int64(SMS)

    def packed(workspace: Array | None) -> ctypes.Array[ctypes.c_char]:
        tensors = [0 if v is None else v.ctypes.data for v in (of_a, of_b, of_c, y, workspace)]
        return ctypes.create_string_buffer(struct.pack(f"@{FORWARD}", *tensors, batch, m, n, k, *steps, 0, 0))

    needed = host().workspace_bytes(packed(None), sms)
    assert needed > 0, "not in one launch"
    workspace = device().empty(needed + 256, "uint8")
    workspace = workspace[-workspace.ctypes.data % 256 :]
    told, launch = ctypes.create_string_buffer(4096), (ctypes.c_int64 * 4)()
    size = host().told(packed(workspace), sms, told, launch)
    blocks, threads, shared, ended = launch
    workspace[ended : ended + 8] = 0
    device().cluster = (2, 1, 1)
    name = f"matmul_at_onceILb{int(precision == 'fp32x4' or k <= 512)}E"
    device().runtime.kw_set_function_attribute(device().kernel(name).name.encode(), MOST_SHARED, shared)
    device().launch_with(name, ((blocks, 1, 1), (threads, 1, 1), shared), told.raw[:size])
    assert device().findings() == []
    return y.astype("float64")


def draw(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def off_by(y: Array, a: Array, b: Array) -> float:
    """The largest error, over the sum of the products' absolute values."""
    a, b = a.astype("float64"), b.astype("float64")
    return float((np.abs(y - a @ b) / np.maximum(np.abs(a) @ np.abs(b), 1e-30)).max())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_sizes(size: tuple[int, int, int, int]) -> None:
    batch, m, n, k = size
    a, b = draw(1, batch, m, k), draw(2, batch, k, n)
    assert off_by(product(a, b), a, b) < EXACT
