"""Snapshots of random states and buffers, to run a model twice from the same state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Numbers:
    """States of torch's random generators."""

    cpu: torch.Tensor
    cuda: dict[int, torch.Tensor]

    @classmethod
    def now(cls, values: Iterable[Any]) -> "Numbers":
        """Return the states of the CPU, and of the GPUs that hold these values."""
        leaves = pytree.tree_leaves(list(values))
        devices = {leaf.device.index for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_cuda}
        return cls(torch.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices})

    def set(self) -> None:
        """Restore the states."""
        torch.set_rng_state(self.cpu)
        for device, state in self.cuda.items():
            torch.cuda.set_rng_state(state, device)


@dataclass(frozen=True)
class Buffers:
    """Buffers of a module and its descendants: the tensors themselves, and copies of their values."""

    held: Mapping[nn.Module, Mapping[str, torch.Tensor | None]]
    copies: Sequence[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def now(cls, module: nn.Module) -> "Buffers":
        """Return the buffers that the module has now."""
        copies = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
        return cls({one: dict(one._buffers) for one in module.modules()}, copies)

    def set(self) -> None:
        """Restore the buffers: a forward may write to them, replace them, and add new ones."""
        for module, buffers in self.held.items():
            module._buffers.clear()
            module._buffers.update(buffers)
        for buffer, copy in self.copies:
            # Buffers with equal values are skipped: writing to them would still count as a change.
            if not torch.equal(buffer, copy):
                buffer.data.copy_(copy)
