"""Process state that a user may have around a call. Standalone: the worker runs a copy.

A right answer does not depend on it, so the judge varies torch's threads and gradient recording. While
gradients are recorded, no parameter requires one, so torch's computation and its place stay the same.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def apply_conditions(model: Any, conditions: Any) -> Iterator[None]:
    """Run a call of `model` under these `Conditions`; None: without gradients or further changes."""
    if conditions is None or not conditions.gradients:
        asking: list[torch.Tensor] = []
    else:
        asking = [p for p in torch.nn.Module.parameters(model) if p.requires_grad]
    threads = torch.get_num_threads()
    for parameter in asking:
        parameter.requires_grad_(False)
    if conditions is not None:
        torch.set_num_threads(conditions.torch_threads)
    try:
        with torch.set_grad_enabled(conditions is not None and conditions.gradients):
            yield
    finally:
        torch.set_num_threads(threads)
        for parameter in asking:
            parameter.requires_grad_(True)
