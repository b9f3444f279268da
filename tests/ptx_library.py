"""PTX modules, translated to C++, built by g++ and launched through ctypes on the emulator's runtime."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from device_library import Array, Device, build_runtime, cuda_include

from agent.build.toolchain import CPP
from agent.emulator import ptx
from agent.emulator.compile.toolchain import CHECKS
from agent.torch_shim.c_abi import CLaunchRequest, CLaunchRequest_ENTRY

NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def from_cuda(source: Path, includes: Sequence[Path] = (), arch: str = "sm_90") -> str:
    """Compile a .cu file to PTX with nvcc."""
    assert NVCC is not None
    options = [f"-I{path}" for path in includes]
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "out.ptx"
        command = [
            NVCC,
            "-ptx",
            f"-gencode=arch=compute_{arch[3:]},code={arch}",
            "-lineinfo",
            "-std=c++17",
            *options,
            str(source),
            "-o",
            str(result),
        ]
        subprocess.run(command, check=True, timeout=120)
        return result.read_text()


def triple(size: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = (size,) if isinstance(size, int) else size
    return (*sizes, 1, 1)[:3]


PORTABLE_CLUSTER = 8
"""Maximum number of blocks in a cluster of a kernel that asks for no more."""
LARGE_CLUSTERS = 14
"""Value of cudaFuncAttributeNonPortableClusterSizeAllowed."""


class PtxDevice(Device):
    """A loaded PTX module. `source` only names it."""

    def __init__(self, source: Path, text: str, checked: bool = False) -> None:
        super().__init__(source, checked)
        self.unit = ptx.unit(text, [source.name])
        self.cluster = (0, 0, 0)
        """Cluster size of the following launches."""

    def address(self, array: Array) -> int:
        """Return the address of the array for kernels."""
        return array.ctypes.data

    @staticmethod
    def scratch(name: str, text: str) -> Path:
        """Write a file that lasts as long as the process, and return its path."""
        path = build_runtime().parent / name
        path.write_text(text)
        return path

    @cached_property
    def path(self) -> Path:
        runtime = build_runtime()
        translated = runtime.parent / f"{self.source.stem}-{self.checked}-ptx.cpp"
        translated.write_text(self.unit.text)
        library, object_file = translated.with_suffix(".so"), translated.with_suffix(".o")
        compile_command = [
            "g++", "-std=c++20", *ptx.FLAGS, "-fPIC", "-mf16c", "-mfma", f"-I{CPP / 'include'}",
            f"-isystem{cuda_include()}", *(CHECKS if self.checked else ()),
            "-c", str(translated), "-o", str(object_file),
        ]  # fmt: skip
        subprocess.run(compile_command, check=True, timeout=240)
        link = ["g++", "-shared", str(object_file), str(runtime), "-Wl,-z,defs", "-o", str(library)]
        subprocess.run(link, check=True, timeout=240)
        return library

    def kernel(self, name: str) -> ptx.Entry:
        """Return the kernel with this name, or else the one whose mangled name contains it."""
        same = [entry for entry in self.unit.entries if entry.name == name]
        [found] = same or [entry for entry in self.unit.entries if name in entry.name]
        return found

    def launch(
        self, name: str, grid: int | tuple[int, ...], block: int | tuple[int, ...], *arguments: Any
    ) -> None:
        self.launch_with(name, (triple(grid), triple(block), 0), *arguments)

    def launch_with(
        self, name: str, shape: tuple[tuple[int, ...], tuple[int, ...], int], *arguments: Any
    ) -> None:
        """Launch a kernel.

        `shape` is grid, block and bytes of dynamic shared memory. Arguments are arrays in device memory,
        numpy scalars, or bytes for structs.
        """
        entry = self.kernel(name)
        words = [as_bytes(argument, self.address) for argument in arguments]
        assert [len(word) for word in words] == list(entry.parameter_bytes)
        pointers = len(words) * 8
        room = ctypes.create_string_buffer(pointers + sum(64 + len(word) for word in words))
        position = pointers
        for index, word in enumerate(words):
            place = (ctypes.addressof(room) + position + 63) // 64 * 64
            position = place - ctypes.addressof(room)
            ctypes.memmove(place, word, len(word))
            ctypes.memmove(ctypes.addressof(room) + 8 * index, place.to_bytes(8, "little"), 8)
            position += len(word)
        request = CLaunchRequest(
            size=ctypes.sizeof(CLaunchRequest), name=entry.name.encode(), line=1,
            grid=(ctypes.c_uint * 3)(*shape[0]), block=(ctypes.c_uint * 3)(*shape[1]), dynamic_bytes=shape[2],
            entry=ctypes.cast(getattr(self.library, entry.symbol), CLaunchRequest_ENTRY),
            arguments=ctypes.addressof(room), argument_bytes=len(room),
            cluster=(ctypes.c_uint * 3)(*self.cluster),
        )  # fmt: skip
        if np.prod(self.cluster) > PORTABLE_CLUSTER:
            self.runtime.kw_set_function_attribute(entry.name.encode(), LARGE_CLUSTERS, 1)
        assert self.runtime.kw_launch(ctypes.byref(request)) == 0


def as_bytes(argument: Any, address: Callable[[Array], int]) -> bytes:
    """Return the bytes of a kernel argument."""
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.ndarray):
        return address(argument).to_bytes(8, "little")
    assert isinstance(argument, np.generic)
    return argument.tobytes()


def bits(values: Array, dtype: str) -> Array:
    """Reinterpret an array as another type."""
    return np.ascontiguousarray(values).view(dtype)
