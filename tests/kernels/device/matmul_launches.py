"""What the tests of matmul_fp32x3's launches, run from their PTX, share."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
from device_library import Array, build_runtime
from ptx_library import NVCC, PtxDevice

from agent.torch_shim import c_abi

CSRC = Path(__file__).parents[3] / "agent" / "kernels" / "matmul_fp32x3" / "csrc"
MOST_SHARED = 8
"""cudaFuncAttributeMaxDynamicSharedMemorySize."""
ORDERS = [c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED]


def host_library(name: str, text: str) -> ctypes.CDLL:
    """The launchers' arithmetic, compiled from this text, which has a `workspace_bytes`."""
    assert NVCC is not None
    source = PtxDevice.scratch(f"{name}_host.cu", text)
    library = build_runtime().parent / f"{name}_host.so"
    command = [
        NVCC, "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static", "-arch=sm_90",
        f"-I{CSRC}", str(source), "-o", str(library),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=240)
    loaded = ctypes.CDLL(str(library))
    loaded.workspace_bytes.restype = ctypes.c_int64
    return loaded


def draw(seed: int, *shape: int) -> Array:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def off_by(y: Array, a: Array, b: Array) -> float:
    """The largest error, over the sum of the products' absolute values."""
    a, b = a.astype("float64"), b.astype("float64")
    return float((np.abs(y - a @ b) / np.maximum(np.abs(a) @ np.abs(b), 1e-300)).max())
