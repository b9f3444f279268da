"""Construction of a module whose large parameters are overwritten right afterwards. Standalone: copied.

Initialising gigabytes of parameters on a CPU takes very long, and `load_state_dict` overwrites the result.
The functions of `torch.nn.init` therefore leave tensors unchanged while a module with large parameters is
constructed. Small modules are initialised as usual.
"""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch

LARGE_BYTES = 256 << 20
"""Minimum total bytes of a module's parameters for their initialisation to be skipped."""


@contextlib.contextmanager
def skip_initialisation(state: dict[str, torch.Tensor]) -> Iterator[None]:
    """Skip the initialisation of parameters in this context if `state`, which replaces them, is large."""
    if sum(tensor.numel() * tensor.element_size() for tensor in state.values()) < LARGE_BYTES:
        yield
        return
    init = torch.nn.init
    known = {
        name: function
        for name, function in vars(init).items()
        if name.endswith("_") and not name.startswith("_") and inspect.isfunction(function)
    }
    for name in known:
        setattr(init, name, _untouched)
    try:
        yield
    finally:
        for name, function in known.items():
            setattr(init, name, function)


def _untouched(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
    return tensor
