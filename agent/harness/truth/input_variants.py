"""Inputs that the problem does not state but its reference accepts, with the same constructor arguments.

This code runs in the oracle's process. Other sizes are made by concatenating several draws of the stated
inputs and cutting the result, so that values keep their distribution and integers their range. Inputs that
the reference refuses are no variant. If the batch can be cut, all variants except those of the batch size
have a small batch, to be fast.
"""

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import torch

from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import layouts
from agent.harness.worker.memory_guards import leaves
from agent.records.envelope import Kind

DTYPES = (torch.float16, torch.bfloat16, torch.float64)
MOST_RANK_STEPS = 2
"""Maximum number of dimensions that are added or removed."""
SMALL_BATCH = 2

Inputs = list[Any]
Draws = Callable[[int], Inputs]
"""Function that returns the inputs of a draw, given its number; all draws have the same shapes."""
Axes = Callable[[int, torch.Tensor], list[int]]
"""Function that returns a tensor's dimensions to resize, given its index in the inputs and the tensor."""
Change = Callable[[list[torch.Tensor]], torch.Tensor]
"""Function that makes a tensor of another rank from two draws of the tensor."""


class Variant(NamedTuple):
    kind: Kind
    what: str
    """Description for the user, such as "batch 1"."""
    inputs: Inputs
    layout: str | None = None
    dtype: torch.dtype | None = None
    """Dtype of inputs and parameters, or None for the stated dtypes."""


def find_variants(reference: Reference, seed: int, kinds: list[Kind]) -> list[Variant]:
    """Return the variants that the reference accepts, the kinds in turns.

    A reference that writes to its inputs or buffers has none, since its second run would see other values.
    """

    def stated(number: int) -> Inputs:
        return reference.inputs(seed + number, None) or []

    reference.convert(None)
    shape = _shape(stated(0))
    if not shape or reference.changes or not _takes(reference, stated(0)):
        return []
    small = _small(reference, stated)
    makers: dict[Kind, Callable[[], Iterator[Variant]]] = {
        "layout": lambda: _layouts(reference, small(0)),
        "batch": lambda: _batches(reference, stated),
        "size": lambda: _sizes(reference, small),
        "rank": lambda: _ranks(reference, small),
        "dtype": lambda: _dtypes(small(0)),
    }
    rounds = zip_longest(*(makers[kind]() for kind in kinds))
    return [variant for found in rounds for variant in found if variant is not None]


def draw(reference: Reference, variant: Variant) -> Draw:
    """Return the draw for the variant, with the reference's parameters in the variant's dtype."""
    reference.convert(variant.dtype)
    return reference.given(variant.inputs)


def _small(reference: Reference, draws: Draws) -> Draws:
    """Return draws with a batch of SMALL_BATCH, or `draws` if the batch is smaller or cannot be cut."""
    shape = _shape(draws(0))
    if len(shape) > 1 and shape[0] > SMALL_BATCH:
        for axes in _rules(shape, 0):
            if _takes(reference, _resized([draws(0)], axes, SMALL_BATCH)):
                return lambda number: _resized([draws(number)], axes, SMALL_BATCH)
    return draws


def _layouts(reference: Reference, inputs: Inputs) -> Iterator[Variant]:
    for name in layouts.LAYOUTS:
        laid = layouts.laid_out(inputs, name)
        moved = any(
            one.stride() != other.stride() or one.storage_offset() != other.storage_offset()
            for one, other in zip(leaves(laid), leaves(inputs), strict=True)
        )
        if moved and _takes(reference, laid):
            yield Variant("layout", f"{name} inputs", laid, layout=name)


def _batches(reference: Reference, draws: Draws) -> Iterator[Variant]:
    shape = _shape(draws(0))
    for size in (1, shape[0] + 1) if len(shape) > 1 else ():
        inputs = _of_size(reference, draws, 0, size)
        if inputs is not None and size != shape[0]:
            yield Variant("batch", f"batch {size}", inputs)


def _sizes(reference: Reference, draws: Draws) -> Iterator[Variant]:
    shape = _shape(draws(0))
    for axis in range(min(1, len(shape) - 1), len(shape)):
        odd = shape[axis] + 1 + shape[axis] % 2
        inputs = _of_size(reference, draws, axis, odd)
        if inputs is not None:
            yield Variant("size", f"shape {_shape(inputs)}", inputs)


def _ranks(reference: Reference, draws: Draws) -> Iterator[Variant]:
    for changes in (_LOWER, _HIGHER):
        pair = [draws(0), draws(1)]
        for _ in range(MOST_RANK_STEPS):
            tried = [_of_rank(pair, change) for change in changes]
            found = next((inputs for inputs in tried if inputs and _takes(reference, inputs)), None)
            if found is None:
                break
            yield Variant("rank", f"{len(_shape(found))} dimensions {_shape(found)}", found)
            pair = [found, tree_map(torch.clone, found)]


def _dtypes(inputs: Inputs) -> Iterator[Variant]:
    given = {tensor.dtype for tensor in leaves(inputs) if tensor.is_floating_point()}
    for dtype in DTYPES if given else ():
        if dtype not in given:
            converted = tree_map(lambda t, to=dtype: t.to(to) if t.is_floating_point() else t, inputs)
            yield Variant("dtype", str(dtype).removeprefix("torch."), converted, dtype=dtype)


def _of_size(reference: Reference, draws: Draws, axis: int, size: int) -> Inputs | None:
    """Return inputs whose first tensor has length `size` in dimension `axis`, or None if none is accepted."""
    shape = _shape(draws(0))
    enough = [draws(number) for number in range(-(-size // max(shape[axis], 1)))]
    tried = (_resized(enough, axes, size) for axes in _rules(shape, axis))
    return next((inputs for inputs in tried if _takes(reference, inputs)), None)


def _rules(shape: tuple[int, ...], axis: int) -> tuple[Axes, ...]:
    """Return rules for the dimensions that change together with `axis` of the first tensor.

    With n the length of `axis`, the three rules select `axis` of all tensors whose `axis` has length n, all
    dimensions of length n, or only `axis` of the first tensor.
    """
    before = shape[axis]
    return (
        lambda place, x: [axis] if x.dim() > axis and x.shape[axis] == before else [],
        lambda place, x: [dim for dim, length in enumerate(x.shape) if length == before],
        lambda place, x: [axis] if place == 0 else [],
    )


def _resized(draws: list[Inputs], axes: Axes, size: int) -> Inputs:
    def cut(place: int, tensors: list[torch.Tensor]) -> torch.Tensor:
        for axis in axes(place, tensors[0]):
            tensors = [torch.cat(tensors, axis).narrow(axis, 0, size).contiguous()] * len(tensors)
        return tensors[0]

    return _combined(draws, cut)


_LOWER: tuple[Change, ...] = (
    lambda pair: pair[0].flatten(-2) if pair[0].dim() > 2 else pair[0],
    lambda pair: pair[0][0] if pair[0].dim() > 1 else pair[0],
)
_HIGHER: tuple[Change, ...] = (
    lambda pair: torch.stack(pair, -1),
    lambda pair: torch.stack(pair, 0),
    lambda pair: torch.stack(pair, 1),
)


def _of_rank(pair: list[Inputs], change: Change) -> Inputs | None:
    """Return the inputs after `change` of all tensors with the first tensor's rank, or None if it stays."""
    rank = len(_shape(pair[0]))
    changed = _combined(pair, lambda place, two: change(two) if two[0].dim() == rank else two[0])
    return changed if len(_shape(changed)) != rank else None


def _combined(draws: list[Inputs], change: Callable[[int, list[torch.Tensor]], torch.Tensor]) -> Inputs:
    """Return inputs in which each tensor is made by `change` from the draws' tensors at its index."""
    columns = zip(*(leaves(one) for one in draws), strict=True)
    made = iter([change(place, list(column)) for place, column in enumerate(columns)])
    combined: Inputs = tree_map(lambda tensor: next(made), draws[0])
    return combined


def _takes(reference: Reference, inputs: Inputs) -> bool:
    try:
        with torch.no_grad():
            outputs, touched = reference.native(inputs)
    except ReferenceRaised:
        return False
    tensors = leaves(outputs)
    return not touched and bool(tensors) and all(tensor.numel() > 0 for tensor in tensors)


def _shape(inputs: Inputs) -> tuple[int, ...]:
    """Return the shape of the first tensor, or () if there is no tensor."""
    first = next(iter(leaves(inputs)), None)
    return () if first is None else tuple(first.shape)
