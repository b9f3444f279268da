"""The library that gives torch's CPU tensors memory of the emulated device (cpp/torch/allocator.cpp).

It is compiled against the headers of the installed torch; where those are missing there is none, and torch's
own tensors then stay in memory of the host, known by their bounds only.
"""

import importlib.util
from pathlib import Path

from agent.records import digest

"""Lies beside the runtime; torch_shim loads it where it is there."""


def headers() -> Path | None:
    """The directory of torch's headers; found without importing torch."""
    spec = importlib.util.find_spec("torch")
    place = Path(spec.origin).parent / "include" if spec and spec.origin else None
    return place if place and (place / "c10" / "core" / "CPUAllocator.h").is_file() else None


def version(include: Path | None) -> str:
    """Tells one torch from another."""
    return digest((include.parent / "version.py").read_text()) if include else "no headers of torch"


def options(include: Path) -> list[str]:
    """For the compiler, beside the emulator's own headers."""
    # libc10 is found by its name in a process that has loaded torch.
    return ["-std=c++20", "-O2", "-shared", "-fPIC", "-isystem", str(include), f"-L{include.parent / 'lib'}"]
