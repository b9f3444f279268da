"""The library's operators as torch's dispatcher has them."""

from typing import Any

import torch
from kernels.call import Call
from torch.utils._python_dispatch import TorchDispatchMode

from agent.kernels.operators import NAMESPACE


class Recorder(TorchDispatchMode):
    """Notes the library's operators that run under it, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == NAMESPACE:
            self.calls.append((func, args))
        return func(*args, **(kwargs or {}))


def opcheck(call: Call) -> None:
    """What torch asks of every operator that the call and its gradient run."""
    with Recorder() as seen:
        value = call.ours(*call.tensors(torch.float32))
        value.sum().backward()
    for operator, arguments in seen.calls:
        fresh = tuple(
            value.detach().requires_grad_(operator._opname.endswith("forward") and value.is_floating_point())
            if isinstance(value, torch.Tensor)
            else value
            for value in arguments
        )
        torch.library.opcheck(operator, fresh)
