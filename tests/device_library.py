"""The emulator's runtime with a .cu file of `emulator/device/`, built by g++ and loaded with ctypes."""

import atexit
import ctypes
import importlib.util
import json
import shutil
import subprocess
import tempfile
import weakref
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.build.toolchain import CPP
from agent.emulator.compile import symbolize, toolchain
from agent.emulator.compile.toolchain import CHECKS, LINK_CHECKS
from agent.emulator.frontend import rewrite
from agent.torch_shim import c_abi

DEVICE = Path(__file__).parent / "emulator" / "device"
OPTIONS = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", f"-I{CPP / 'include'}"]

Array = NDArray[Any]
_IN_USE: list[Any] = []
"""Memory of the running test. Its kernels may use it after its arrays are gone."""


def cuda_include() -> str:
    package = importlib.util.find_spec("nvidia.cu13")
    assert package is not None, "the dependency nvidia-cuda-runtime is not installed"
    assert package.submodule_search_locations is not None
    return str(Path(package.submodule_search_locations[0]) / "include")


@cache
def build_runtime() -> Path:
    """Build one runtime for the whole process, because a second copy would share the first one's symbols."""
    directory = tempfile.mkdtemp(prefix="kernelwright-runtime-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(shutil.copy(toolchain.prepare().runtime, directory))


def build_device(source: Path, runtime: Path, options: tuple[str, ...] = ()) -> Path:
    """Rewrite and compile a .cu file, keeping its name and line numbers for the compiler."""
    text = f'#include "kw/device.h"\n#line 1 "{source.name}"\n{rewrite.device_source(source.read_text())}'
    translated = runtime.parent / f"{source.stem}.cpp"
    translated.write_text(text)
    compiled, library = translated.with_suffix(".o"), translated.with_suffix(".so")
    compile_only = ["g++", *OPTIONS, *options, f"-isystem{cuda_include()}", "-c", str(translated)]
    subprocess.run([*compile_only, "-o", str(compiled)], check=True, timeout=240)
    # Link without `options`: the runtime handles announced accesses, so no sanitizer library is linked.
    linked = ["g++", "-shared", str(compiled), str(runtime), "-Wl,-z,defs", LINK_CHECKS, "-o", str(library)]
    subprocess.run(linked, check=True, timeout=240)
    return library


def forget_arrays() -> None:
    """Let go of the running test's arrays, so that those that nothing else uses are freed."""
    _IN_USE.clear()


def settle() -> None:
    """Reset the switches of this process's runtime to their initial state and clear its findings."""
    if not build_runtime.cache_info().currsize:
        return
    runtime = ctypes.CDLL(str(build_runtime()))
    c_abi.declare(runtime, c_abi.RUNTIME)
    runtime.kw_sample(c_abi.SAMPLE_OFF)  # also turns checks off
    runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)
    runtime.kw_set_current_stream(None)
    runtime.kw_clear_findings()


class Device:
    """A loaded .cu file with the runtime that it uses."""

    def __init__(self, source: Path, checked: bool = False) -> None:
        self.source = source
        self.checked = checked
        self.runtime = ctypes.CDLL(str(build_runtime()), mode=ctypes.RTLD_GLOBAL)
        c_abi.declare(self.runtime, c_abi.RUNTIME)
        self.runtime.kw_init(2)
        self.runtime.cudaGetErrorString.restype = ctypes.c_char_p

    @cached_property
    def library(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    @cached_property
    def path(self) -> Path:
        return build_device(self.source, build_runtime(), CHECKS if self.checked else ())

    def array(self, values: Any, dtype: str = "float32") -> Array:
        """Return an array in device memory with these values."""
        host = np.asarray(values, dtype=dtype)
        device = self.empty(host.shape, dtype)
        device[...] = host
        return device

    def empty(self, shape: int | tuple[int, ...], dtype: str = "float32") -> Array:
        """Return an array in unwritten device memory.

        The memory is freed after the test once no array uses it.
        """
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        address = self.runtime.kw_alloc(size)
        assert address
        buffer = (ctypes.c_char * size).from_address(address)
        weakref.finalize(buffer, self.runtime.kw_free, address).atexit = False
        _IN_USE.append(buffer)
        memory = memoryview(buffer).cast("B")
        return np.frombuffer(memory, dtype=dtype).reshape(shape)

    def call(self, function: str, *arguments: Any) -> int:
        """Call an extern "C" function. Arrays are passed as pointers."""
        converted = [
            ctypes.c_void_p(argument.ctypes.data) if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        ]
        return int(getattr(self.library, function)(*converted))

    def text(self, function: str) -> str:
        """Return the text that a function such as kw_findings or kw_launch_names writes."""
        read = getattr(self.runtime, function)
        needed = read(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        assert read(buffer, needed + 1) == needed
        return buffer.value.decode()

    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.text("kw_findings"))
        return symbolize.resolve(found, [self.path], (self.source.name,))

    def reset(self) -> None:
        self.runtime.kw_clear_findings()
        self.runtime.cudaDeviceReset()

    def line(self, marker: str) -> int:
        """Return the number of the source line that ends with the comment `// here: marker`."""
        lines = self.source.read_text().splitlines()
        [number] = [n for n, line in enumerate(lines, 1) if line.endswith(f"// here: {marker}")]
        return number
