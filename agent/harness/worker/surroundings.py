"""What a user's process is free to have around a call. Standalone: the worker runs a copy.

A right answer hangs on none of it, so that the judge varies it: torch's threads, and whether gradients are
recorded. Where they are, nothing asks for one: what torch computes, and where, stays the same.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def of(model: Any, conditions: Any) -> Iterator[None]:
    """Around a call of `model` under these `Conditions`; None: without gradients, and no more changes."""
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
