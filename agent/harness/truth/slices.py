"""Ground truth computed in slices of the first dimension, to save memory.

A float64 run on inputs of several gigabytes takes a multiple of their memory. If each row of the outputs
depends only on that row of the inputs, the reference is run on some rows at a time, and only the results are
kept. The independence of rows is tested in float32: a few rows run alone must give equal results.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from agent.harness.worker.memory_guards import leaves

TESTED_ROWS = 2
"""Number of rows at either end that are run alone to test independence."""
NEAR = 1e-4
"""Relative difference that rounding in another order may cause in rows that run alone."""


def length(outputs: Any) -> int:
    """Return the length of the first dimension if all outputs share it, or 0 if they differ."""
    shapes = [tuple(tensor.shape) for tensor in leaves(outputs)]
    firsts = {shape[0] if shape else 0 for shape in shapes}
    return firsts.pop() if len(firsts) == 1 and shapes else 0


def cut(inputs: list[Any], rows: int, begin: int, end: int) -> list[Any]:
    """Return the inputs with every tensor of `rows` rows cut to the rows from `begin` to `end`."""

    def part(tensor: torch.Tensor) -> torch.Tensor:
        whole = tensor.dim() == 0 or tensor.shape[0] != rows
        return tensor if whole else tensor[begin:end]

    return list(tree_map_only(torch.Tensor, part, inputs))


def are_independent(run: Callable[[list[Any]], Any], inputs: list[Any], outputs: Any) -> bool:
    """Return True if the first and the last rows, run alone, give their results in `outputs`."""
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
    """Run `pieces` slices of the inputs one after the other, and return their results concatenated."""
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
