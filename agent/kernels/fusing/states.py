"""Random numbers and buffers of a moment, to run something twice from the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Numbers:
    """States of torch's generators."""

    cpu: torch.Tensor
    cuda: dict[int, torch.Tensor]

    @classmethod
    def now(cls, values: Iterable[Any]) -> "Numbers":
        """Of the CPU, and of the GPUs on which these values lie."""
        leaves = pytree.tree_leaves(list(values))
        devices = {leaf.device.index for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_cuda}
        return cls(torch.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices})

    def set(self) -> None:
        """Goes back to them."""
        torch.set_rng_state(self.cpu)
        for device, state in self.cuda.items():
            torch.cuda.set_rng_state(state, device)


def taken(module: nn.Module) -> list[torch.Tensor]:
    """Copies of the buffers."""
    return [buffer.detach().clone() for buffer in module.buffers()]


def put(module: nn.Module, copies: Sequence[torch.Tensor]) -> None:
    """Writes them back where they are others now: a write that changes nothing is a write all the same."""
    with torch.no_grad():
        for buffer, copy in zip(module.buffers(), copies, strict=True):
            if buffer.shape != copy.shape or not torch.equal(buffer, copy):
                buffer.data.copy_(copy)
