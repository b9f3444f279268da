"""Checks that a candidate preserves its caller's state. Standalone: the worker runs a copy.

Torch's global settings hold for the whole process. Inputs and outputs belong to the caller of forward, and
outputs outlive the module that made them. These checks may refuse a candidate but never verify one.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch

_SWITCHES: dict[str, Callable[[], Any]] = {
    "the gradient mode": torch.is_grad_enabled,
    "the inference mode": torch.is_inference_mode_enabled,
    "the default dtype": torch.get_default_dtype,
    "the number of threads": torch.get_num_threads,
    "the seed": torch.initial_seed,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "TF32 in matrix products": lambda: torch.backends.cuda.matmul.allow_tf32,
    "TF32 in cuDNN": lambda: torch.backends.cudnn.allow_tf32,
    "cuDNN's benchmark mode": lambda: torch.backends.cudnn.benchmark,
}
_READ = tuple(_SWITCHES.items())
"""Functions that read torch's settings, bound before candidate code runs, which may replace them in torch."""


class Disturbed(RuntimeError):
    """Exception raised if the candidate changed state of its caller."""


@contextlib.contextmanager
def kept(doing: str) -> Iterator[None]:
    """Raise Disturbed if one of torch's settings differs at the end of the context."""
    before = [read() for _, read in _READ]
    yield
    changed = [name for (name, read), old in zip(_READ, before, strict=True) if read() != old]
    if changed:
        raise Disturbed(f"{doing} changes {', '.join(changed)} of the whole process")


def check_inputs(inputs: list[torch.Tensor]) -> None:
    """Raise Disturbed if forward left `requires_grad`, a gradient or a hook on an input."""
    for number, tensor in enumerate(inputs):
        if tensor.requires_grad or tensor.grad is not None or tensor._backward_hooks:
            raise Disturbed(f"forward makes input {number} require a gradient, or leaves a hook on it")


def check_outputs(outputs: list[torch.Tensor], may_overlap: bool) -> None:
    """Raise Disturbed if elements of an output share memory, unless the reference's do (`may_overlap`)."""
    if may_overlap:
        return
    for number, tensor in enumerate(outputs):
        if is_expanded(tensor):
            message = f"output {number} is expanded: elements share memory, as the reference's do not"
            raise Disturbed(f"{message}; return a contiguous tensor")


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return True if several elements of a tensor share one memory location."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.numel() > 0 and any(size > 1 and stride == 0 for size, stride in sizes)


def released(models: list[Any], outputs: list[torch.Tensor], synchronize: Callable[[], None]) -> None:
    """Delete a module, and raise Disturbed if this changes outputs that it returned."""
    before = [tensor.detach().clone() for tensor in outputs]
    models.clear()
    gc.collect()
    synchronize()
    for number, (old, new) in enumerate(zip(before, outputs, strict=True)):
        if not torch.equal(
            old.contiguous().view(-1).view(torch.uint8), new.contiguous().view(-1).view(torch.uint8)
        ):
            raise Disturbed(f"output {number} changes when the module that returned it is collected")
