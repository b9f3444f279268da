"""GPU memory that two processes map, and the layout of tensors in it. Standalone: the worker runs a copy.

The oracle makes the memory and passes its descriptor over a local socket from which it never reads. As the
candidate may write to the memory at any time, the oracle copies outputs before it reads them.

A guard band of BAND_BYTES unused bytes lies before and after every tensor.
"""

import array
import ctypes
import math
import os
import socket
from collections.abc import Sequence
from typing import Any

import torch

BAND_BYTES = 4096
"""Bytes of a guard band, a multiple of every alignment that device code may need."""
PIECE_BYTES = 1 << 30
_DEVICE, _PINNED, _DESCRIPTOR, _READ_AND_WRITE, _OUT_OF_MEMORY = 1, 1, 1, 3, 2


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int), ("handle_type", ctypes.c_int), ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int), ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class _Access(ctypes.Structure):
    _fields_ = (("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int))


class _Bytes:
    """Part of a segment in a form that torch turns into a tensor; keeps the segment mapped."""

    def __init__(self, segment: "Segment", address: int, size: int) -> None:
        self._segment = segment
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


class Segment:
    """Device memory behind a driver handle, mapped into this process."""

    def __init__(self, handle: ctypes.c_uint64, size: int) -> None:
        self.size = size
        self._handle = handle
        self._device = torch.cuda.current_device()
        address, length = ctypes.c_uint64(), ctypes.c_size_t(size)
        none = ctypes.c_ulonglong(0)
        _call("cuMemAddressReserve", ctypes.byref(address), length, ctypes.c_size_t(0), none, none)
        self.address = address.value
        _call("cuMemMap", address, length, ctypes.c_size_t(0), handle, none)
        access = _Access(_DEVICE, self._device, _READ_AND_WRITE)
        _call("cuMemSetAccess", address, length, ctypes.byref(access), ctypes.c_size_t(1))

    @classmethod
    def made(cls, size: int) -> "Segment":
        """Return a new segment of at least `size` bytes. Raises MemoryError if the GPU lacks memory.

        If needed, torch's allocator in this process first releases its free memory.
        """
        _start()
        if size > torch.cuda.mem_get_info()[0]:
            torch.cuda.empty_cache()
        wanted = _Properties(_PINNED, _DESCRIPTOR, _DEVICE, torch.cuda.current_device(), None)
        step = ctypes.c_size_t()
        _call("cuMemGetAllocationGranularity", ctypes.byref(step), ctypes.byref(wanted), 0)
        size = -(-size // step.value) * step.value
        handle = ctypes.c_uint64()
        _call(
            "cuMemCreate",
            ctypes.byref(handle),
            ctypes.c_size_t(size),
            ctypes.byref(wanted),
            ctypes.c_ulonglong(0),
        )
        return cls(handle, size)

    @classmethod
    def received(cls, source: socket.socket, size: int) -> "Segment":
        """Return the segment whose descriptor another process sent to the socket `source`."""
        _start()
        _, control, _, _ = source.recvmsg(1, socket.CMSG_SPACE(4))
        [descriptor] = array.array("i", control[0][2])
        handle = ctypes.c_uint64()
        _call(
            "cuMemImportFromShareableHandle",
            ctypes.byref(handle), ctypes.c_void_p(descriptor), _DESCRIPTOR,
        )  # fmt: skip
        os.close(descriptor)
        return cls(handle, size)

    def again(self) -> "Segment":
        """Return a second mapping of the segment's memory, at another address."""
        return Segment(self._handle, self.size)

    def hand_over(self, target: socket.socket) -> None:
        """Send a descriptor of the segment's memory to the socket `target`."""
        descriptor = ctypes.c_int()
        _call(
            "cuMemExportToShareableHandle",
            ctypes.byref(descriptor), self._handle, _DESCRIPTOR, ctypes.c_ulonglong(0),
        )  # fmt: skip
        rights = array.array("i", [descriptor.value])
        target.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os.close(descriptor.value)

    @staticmethod
    def free() -> int:
        """Return the bytes of free device memory."""
        _start()
        return int(torch.cuda.mem_get_info()[0])

    def tensor(self, offset: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a contiguous tensor in the segment's memory from `offset` on."""
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            return torch.empty(tuple(shape), dtype=dtype, device="cuda")
        if offset < 0 or offset + size > self.size:
            raise ValueError(f"{size} bytes at {offset} do not lie in a segment of {self.size}")
        raw = torch.as_tensor(_Bytes(self, self.address + offset, size), device="cuda")
        return raw.view(dtype).reshape(tuple(shape))

    def raw(self, offset: int, size: int) -> torch.Tensor:
        return self.tensor(offset, (size,), torch.uint8)


def blank(segment: Segment) -> None:
    """Fill the segment with ones in every bit, as new memory may still hold data such as a ground truth."""
    for begin in range(0, segment.size, PIECE_BYTES):
        segment.raw(begin, min(PIECE_BYTES, segment.size - begin)).fill_(255)
    torch.cuda.synchronize()


def laid(sizes: Sequence[int], begin: int) -> tuple[list[int], int]:
    """Return offsets for tensors of `sizes` bytes with guard bands, from `begin` on, and the end of the last.

    The end includes the last tensor's guard band.
    """
    offsets = []
    for size in sizes:
        offsets.append(begin + BAND_BYTES)
        begin += BAND_BYTES + -(-size // BAND_BYTES) * BAND_BYTES
    return offsets, begin + BAND_BYTES


def put(tensors: Sequence[torch.Tensor], segment: Segment, begin: int, end: int) -> bool:
    """Copy the tensors to the bytes `begin` to `end` of a segment. Return True if they fit."""
    offsets, needed = laid([t.numel() * t.element_size() for t in tensors], begin)
    if needed > end:
        return False
    for tensor, offset in zip(tensors, offsets, strict=True):
        segment.tensor(offset, tensor.shape, tensor.dtype).copy_(tensor.detach())
    return True


def _start() -> None:
    torch.empty(1, device="cuda")


def _call(name: str, *arguments: Any) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if code == _OUT_OF_MEMORY:
        raise MemoryError(f"{name}: the GPU has too little free memory")
    if code:
        raise OSError(f"{name} failed with CUDA's code {code}")
