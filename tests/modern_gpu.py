"""Kernels of `emulator/modern` on a GPU, with the interface that the emulator's tests use."""

import ctypes
import subprocess
import tempfile
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ptx_library import NVCC, PtxDevice, as_bytes, triple

SOURCES = Path(__file__).parent / "emulator" / "modern"
MAX_DYNAMIC_BYTES = 8
"""Value of CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
CLUSTER_DIMENSION = 4
"""Value of CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("dynamic", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class Driver:
    """CUDA driver API through ctypes."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.cuTensorMapEncodeTiled = self.cuda.cuTensorMapEncodeTiled
        self.cuTensorMapEncodeIm2col = self.cuda.cuTensorMapEncodeIm2col
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check("cuInit", 0)
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxSetCurrent", context)

    def check(self, name: str, *arguments: Any) -> None:
        error = getattr(self.cuda, name)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(error, ctypes.byref(text))
            raise RuntimeError((text.value or b"").decode() or f"error {error}")


@cache
def driver() -> Driver:
    return Driver()


def cubin(name: str, folder: Path) -> Path:
    """Return the cubin of a source of `emulator/modern`, building it if it does not exist."""
    made = folder / f"{name}.cubin"
    if not made.exists():
        options = ["-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-cubin", "-w"]
        command = [str(NVCC), *options, "-o", str(made), str(SOURCES / f"{name}.cu")]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
    return made


class GpuDevice(PtxDevice):
    """A source on the GPU. Arrays live on the host; each launch copies all of them to the GPU and back."""

    def __init__(self, name: str, folder: Path) -> None:
        self.source = SOURCES / f"{name}.cu"
        self.cluster = (0, 0, 0)
        self.folder = folder
        self.runtime: Any = driver()
        self._mirrored: list[tuple[np.ndarray[Any, Any], ctypes.c_void_p]] = []

    @cached_property
    def module(self) -> ctypes.c_void_p:
        loaded = ctypes.c_void_p()
        driver().check(
            "cuModuleLoad", ctypes.byref(loaded), str(cubin(self.source.stem, self.folder)).encode()
        )
        return loaded

    def empty(self, shape: int | tuple[int, ...], dtype: str = "float32") -> Any:
        """Return an array with all bits set, as in the emulator's first draw."""
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        host = np.full(count, 0xFF, "uint8").view(dtype).reshape(shape)
        place = ctypes.c_void_p()
        driver().check("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(host.nbytes))
        self._mirrored.append((host, place))
        return host

    def address(self, array: Any) -> int:
        [place] = [place for host, place in self._mirrored if host.ctypes.data == array.ctypes.data]
        return place.value or 0

    def findings(self) -> list[dict[str, Any]]:
        return []  # a GPU reports no findings

    def reset(self) -> None:
        for _, place in self._mirrored:
            driver().check("cuMemFree_v2", place)
        self._mirrored.clear()

    def launch_with(
        self, name: str, shape: tuple[tuple[int, ...], tuple[int, ...], int], *arguments: Any
    ) -> None:
        check, function = driver().check, ctypes.c_void_p()
        check("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        if shape[2]:
            check("cuFuncSetAttribute", function, MAX_DYNAMIC_BYTES, shape[2])
        for host, place in self._mirrored:
            check("cuMemcpyHtoD_v2", place, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes))
        held = [_aligned(as_bytes(argument, self.address)) for argument in arguments]
        pointers = (ctypes.c_void_p * len(held))(*(where for _, where in held))
        attribute = (ctypes.c_uint32 * 18)(CLUSTER_DIMENSION, 0, *self.cluster)
        config = LaunchConfig(
            (ctypes.c_uint * 3)(*triple(shape[0])), (ctypes.c_uint * 3)(*triple(shape[1])), shape[2], None,
            ctypes.addressof(attribute), int(any(self.cluster)),
        )  # fmt: skip
        check("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
        check("cuCtxSynchronize")
        for host, place in self._mirrored:
            check("cuMemcpyDtoH_v2", ctypes.c_void_p(host.ctypes.data), place, ctypes.c_size_t(host.nbytes))


def _aligned(word: bytes) -> tuple[Any, int]:
    """Copy an argument to 64-byte aligned memory, as tensor maps require. Return memory and address."""
    room = ctypes.create_string_buffer(len(word) + 64)
    where = (ctypes.addressof(room) + 63) // 64 * 64
    ctypes.memmove(where, word, len(word))
    return room, where


@cache
def on_gpu(name: str) -> GpuDevice:
    return GpuDevice(name, Path(tempfile.mkdtemp(prefix="kernelwright-modern-")))
