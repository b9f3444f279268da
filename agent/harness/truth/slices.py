"""Ground truth in slices over the first dimension, for references whose results are independent along it.

A float64 run of inputs of several gigabytes, with its intermediate results, takes a multiple of their memory.
Where each row of the outputs follows from the same row of the inputs, the run is made some rows at a time.
Only the result is kept whole. Independence is tested, not assumed: a few rows alone, in float32, must give
the same results as within the whole.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from agent.harness.worker.memory_guards import leaves

TESTED_ROWS = 2
"""Number of rows at either end that are run alone to test independence."""
NEAR = 1e-4
"""Share of the root mean square by which rows alone may differ, as rounding in another order does."""


def length(outputs: Any) -> int:
    """Return the first dimension that all outputs share, or 0 where they share none that can be cut."""
    shapes = [tuple(tensor.shape) for tensor in leaves(outputs)]
    firsts = {shape[0] if shape else 0 for shape in shapes}
    return firsts.pop() if len(firsts) == 1 and shapes else 0


def cut(inputs: list[Any], rows: int, begin: int, end: int) -> list[Any]:
    """Return the inputs with every tensor of `rows` rows cut to those from `begin` to `end`."""

    def part(tensor: torch.Tensor) -> torch.Tensor:
        whole = tensor.dim() == 0 or tensor.shape[0] != rows
        return tensor if whole else tensor[begin:end]

    return list(tree_map_only(torch.Tensor, part, inputs))


def are_independent(run: Callable[[list[Any]], Any], inputs: list[Any], outputs: Any) -> bool:
    """Return True if rows at either end, run alone, give the same results as in `outputs`."""
    rows = length(outputs)
    if rows < 2 * TESTED_ROWS or all(t.dim() == 0 or t.shape[0] != rows for t in leaves(inputs)):
        return False
    for begin in (0, rows - TESTED_ROWS):
        end = begin + TESTED_ROWS
        alone, whole = leaves(run(cut(inputs, rows, begin, end))), leaves(outputs)
        if len(alone) != len(whole):
            return False
        if not all(_agree(a, b[begin:end]) for a, b in zip(alone, whole, strict=True)):
            return False
    return True


def _agree(alone: torch.Tensor, whole: torch.Tensor) -> bool:
    if (alone.shape, alone.dtype) != (whole.shape, whole.dtype):
        return False
    if not whole.is_floating_point():
        return torch.equal(alone, whole)
    scale = float(torch.nan_to_num(whole.double(), posinf=0.0, neginf=0.0).square().mean().sqrt())
    return torch.allclose(alone, whole, rtol=NEAR, atol=NEAR * scale, equal_nan=True)


def joined(run: Callable[[list[Any]], Any], inputs: list[Any], rows: int, pieces: int) -> Any:
    """Run `pieces` parts of the inputs one after the other, and return their results joined.

    Memory is held for only one part's run at a time.
    """
    whole: list[torch.Tensor] = []
    structure = None
    for begin, end in _spans(rows, pieces):
        parts, structure = tree_flatten(run(cut(inputs, rows, begin, end)))
        if not whole:
            whole = [
                torch.empty((rows, *part.shape[1:]), dtype=part.dtype, device=part.device) for part in parts
            ]
        for target, part in zip(whole, parts, strict=True):
            target[begin:end] = part
        del parts
    assert structure is not None
    return tree_unflatten(whole, structure)


def _spans(rows: int, pieces: int) -> Iterator[tuple[int, int]]:
    step = -(-rows // pieces)
    for begin in range(0, rows, step):
        yield begin, min(begin + step, rows)
