"""The runtime library through ctypes: device memory, CUDA's error state, launches and findings."""

import ctypes
import json
import weakref
from typing import Any

import torch

UNLOCATED_LINE = 1_000_000
"""Lines from here on belong to generated source that is not in the candidate's file."""


class Runtime:
    """One loaded libkw_runtime; it is loaded for the whole process, so that extensions find it."""

    def __init__(self, library: str, workers: int) -> None:
        self._c = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        self._c.kw_alloc.restype = ctypes.c_void_p
        self._c.kw_alloc.argtypes = [ctypes.c_size_t]
        self._c.kw_free.argtypes = [ctypes.c_void_p]
        self._c.kw_free.restype = None
        self._c.kw_launch_count.restype = ctypes.c_long
        self._c.kw_findings.restype = ctypes.c_size_t
        self._c.kw_findings.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self._c.cudaGetErrorString.restype = ctypes.c_char_p
        self._c.kw_init(workers)

    def launches(self) -> int:
        """Kernel launches so far."""
        return int(self._c.kw_launch_count())

    def findings(self) -> list[dict[str, Any]]:
        """What the runtime noted, oldest first; `line` is the candidate's or None."""
        needed = self._c.kw_findings(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._c.kw_findings(buffer, needed + 1)
        found: list[dict[str, Any]] = json.loads(buffer.value.decode("utf-8", "replace") or "[]")
        for finding in found:
            line = finding.get("line")
            if line is not None and not 0 < line < UNLOCATED_LINE:
                finding["line"] = None
        return found

    def synchronize(self) -> None:
        """Raises RuntimeError with CUDA's words when an error is pending."""
        self._c.cudaDeviceSynchronize()
        error = self._c.cudaGetLastError()
        if error != 0:
            text = self._c.cudaGetErrorString(error).decode()
            raise RuntimeError(f"CUDA error: {text}")

    def storage(self, size_bytes: int) -> torch.UntypedStorage:
        """Device memory, poisoned with 0xFF; it is given back when the storage dies."""
        address = self._c.kw_alloc(size_bytes)
        if not address:
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {size_bytes} bytes.")
        buffer = (ctypes.c_char * size_bytes).from_address(address)
        weakref.finalize(buffer, self._c.kw_free, address).atexit = False
        return torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """A tensor in device memory with the shape, strides and dtype of `like` (which may be meta)."""
        if like.layout is not torch.strided or like.numel() == 0:
            return torch.empty_like(like, device="cpu")
        extent = 1 + sum((n - 1) * step for n, step in zip(like.shape, like.stride(), strict=True))
        made = torch.empty(0, dtype=like.dtype)
        made.set_(self.storage(extent * like.element_size()), 0, like.shape, like.stride())
        return made
