"""Memory of the CPU in the place of GPU memory that two processes map, to test what passes through it."""

import socket
from collections.abc import Sequence
from typing import ClassVar

import torch


class CpuSegment:
    """As `agent.harness.worker.shared_memory.Segment`, within one process."""

    made_so_far: ClassVar[list["CpuSegment"]] = []

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = torch.zeros(size, dtype=torch.uint8)

    @classmethod
    def made(cls, size: int) -> "CpuSegment":
        cls.made_so_far.append(cls(size))
        return cls.made_so_far[-1]

    @classmethod
    def received(cls, source: socket.socket, size: int) -> "CpuSegment":
        segment = cls.made_so_far[int.from_bytes(source.recv(4), "big")]
        assert segment.size == size
        return segment

    def again(self) -> "CpuSegment":
        """At the same address, since there is no other."""
        return self

    def hand_over(self, target: socket.socket) -> None:
        target.send(self.made_so_far.index(self).to_bytes(4, "big"))

    @staticmethod
    def free() -> int:
        return 1 << 30

    def tensor(self, offset: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        size = torch.Size(shape).numel() * dtype.itemsize
        if offset < 0 or offset + size > self.size:
            raise ValueError(f"{size} bytes at {offset} do not lie in a segment of {self.size}")
        return self._bytes[offset : offset + size].view(dtype).reshape(tuple(shape))

    def raw(self, offset: int, size: int) -> torch.Tensor:
        return self.tensor(offset, (size,), torch.uint8)
