"""Comparison of an output's structure with the reference's: containers, shapes and dtypes.

The worker describes an output by its containers (`tree`), and by shape and dtype of its `tensors`; see
`agent.harness.worker.wire`. The description is not trusted. `tolerance` compares the values.
"""

from typing import Any

import torch

from agent.harness.worker.memory_guards import leaves
from agent.records import Finding


def fault(description: dict[str, Any], native: Any) -> Finding | None:
    """Return a finding if the described output's containers, shapes or dtypes are wrong."""
    expected, given = _shape_of(native), _skeleton(description["tree"])
    if given != expected:
        return Finding(
            kind="wrong-structure",
            message=f"forward returned {given}; the reference returns {expected}.",
        )
    for index, (spec, want) in enumerate(zip(description["tensors"], leaves(native), strict=True)):
        which = f"output {index} " if len(description["tensors"]) > 1 else "the output "
        if tuple(spec["shape"]) != tuple(want.shape):
            return Finding(
                kind="wrong-shape",
                message=f"{which}has shape {tuple(spec['shape'])}; the reference's is {tuple(want.shape)}.",
            )
        if spec["dtype"] != str(want.dtype).removeprefix("torch."):
            return Finding(
                kind="wrong-dtype", message=f"{which}is {spec['dtype']}; the reference's is {want.dtype}."
            )
    return None


def is_expanded(tensor: torch.Tensor) -> bool:
    """Return True if several elements of a tensor share one memory location."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.numel() > 0 and any(size > 1 and stride == 0 for size, stride in sizes)


def skeleton(value: Any) -> str:
    """Describe containers, shapes and dtypes of a reference's own output."""
    tensors = ", ".join(f"{tuple(t.shape)} {t.dtype}" for t in leaves(value))
    return f"{_shape_of(value)}: {tensors}"


def _shape_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shape_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        name = "list" if isinstance(value, list) else "tuple"
        return f"{name}({', '.join(_shape_of(item) for item in value)})"
    return repr(value)


def _skeleton(tree: list[Any]) -> str:
    kind, content = tree
    if kind == "tensor":
        return "a tensor"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_skeleton(item)}" for key, item in content) + "}"
    if kind in ("list", "tuple"):
        return f"{kind}({', '.join(_skeleton(item) for item in content)})"
    return repr(content)
