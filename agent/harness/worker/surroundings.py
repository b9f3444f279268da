"""Process state that a user may have during a call. Standalone: the worker runs a copy.

A right answer depends neither on torch's number of threads nor on the gradient mode, so the judge varies
both. While the gradient mode is on, no parameter requires a gradient, so that torch computes as usual.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def apply_conditions(model: Any, conditions: Any) -> Iterator[None]:
    """Set threads and gradient mode for a call of `model`; None turns the gradient mode off."""
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
