"""Random numbers and buffers of a moment, to run something twice from the same."""

from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True)
class Buffers:
    """Of a module and of those in it: which tensors they are, and copies of them."""

    held: Mapping[nn.Module, Mapping[str, torch.Tensor | None]]
    copies: Sequence[tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def now(cls, module: nn.Module) -> "Buffers":
        """As they are."""
        copies = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
        return cls({one: dict(one._buffers) for one in module.modules()}, copies)

    def set(self) -> None:
        """Goes back to them: a forward may write to its buffers, put others in their place, and add some."""
        for module, buffers in self.held.items():
            module._buffers.clear()
            module._buffers.update(buffers)
        for buffer, copy in self.copies:
            # A write that changes nothing is a write all the same.
            if not torch.equal(buffer, copy):
                buffer.data.copy_(copy)
