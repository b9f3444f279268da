"""Traversal of tensors inside lists, tuples and dicts, as in arguments and results."""

from collections.abc import Callable, Iterator
from typing import Any

import torch


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor in a value, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def each(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the value with `change` applied to every tensor; subclasses of containers stay unchanged."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) is dict:
        return {key: each(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(each(item, change) for item in value)
    return value
