"""Library that allocates torch's CPU tensors in emulated device memory (cpp/torch/allocator.cpp).

The library lies beside the runtime, and torch_shim loads it if it exists. It is compiled against the headers
of the installed torch. Without these headers torch's own tensors stay in host memory, and only their bounds
are known.
"""

import importlib.util
from pathlib import Path

from agent.records import digest


def headers() -> Path | None:
    """Return the directory of torch's headers, or None; does not import torch."""
    spec = importlib.util.find_spec("torch")
    place = Path(spec.origin).parent / "include" if spec and spec.origin else None
    return place if place and (place / "c10" / "core" / "CPUAllocator.h").is_file() else None


def version(include: Path | None) -> str:
    """Return a digest that identifies the torch version, or a fixed text without headers."""
    return digest((include.parent / "version.py").read_text()) if include else "no headers of torch"


def options(include: Path) -> list[str]:
    """Return compiler options to add to the emulator's own include directories."""
    # No rpath: a process that has loaded torch already has libc10.
    return ["-std=c++20", "-O2", "-shared", "-fPIC", "-isystem", str(include), f"-L{include.parent / 'lib'}"]
