"""Outputs that a float error may move by a whole step: results of rounding, comparison and choice.

A right answer computes the operand of a rounding or comparing operator within a float error. If the operand
is that close to a step, the answer may round or choose the other way. The reference is therefore also run in
float64 with each operand displaced up and down by its measured float32 error. The results of these runs
count as right, too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.tape import bound
from agent.harness.worker.memory_guards import leaves

TIMES = 4
"""Factor on an operand's error (measured, typical and eps) that gives its displacement."""
MOST = 1 << 26
"""Maximum number of operand elements that are kept to measure their errors."""
_ROUNDING = {"round", "floor", "ceil", "trunc", "frac", "sign", "sgn", "floor_divide", "remainder", "fmod"}
_COMPARING = {"gt", "ge", "lt", "le", "eq", "ne"}
_CHOOSING = {"argmax", "argmin", "max", "min", "sort", "topk", "argsort", "bucketize", "searchsorted"}
_SEARCHING = {"bucketize", "searchsorted"}


def operand_name(func: Any, given: dict[str, Any]) -> str | None:
    """Return the name of the argument whose float error may move the result by a step, or None."""
    name = str(func._schema.name).split("::")[-1].rstrip("_")
    key = "self"
    if name == "searchsorted" or (name == "bucketize" and not isinstance(given.get("self"), torch.Tensor)):
        key = "self" if "self" in given else "input"
    operand = given.get(key)
    if not isinstance(operand, torch.Tensor) or not operand.is_floating_point() or not operand.numel():
        return None
    if name in ("max", "min") and "dim" not in given:
        return None
    if name == "div":
        return key if given.get("rounding_mode") else None
    if name == "_to_copy":
        dtype = given.get("dtype")
        return key if dtype is not None and not dtype.is_floating_point and not dtype.is_complex else None
    return key if name in _ROUNDING | _COMPARING | _CHOOSING else None


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that numbers the calls of operators with steps and hands each to `stepped`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = -1

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = bound(func, args, kwargs)
        key = operand_name(func, given)
        if key is None or func._schema.is_mutable:
            return func(*args, **kwargs)
        self.number += 1
        return self.stepped(func, given, key, lambda: func(*args, **kwargs))

    def stepped(self, func: Any, given: dict[str, Any], key: str, run: Callable[[], Any]) -> Any:
        raise NotImplementedError


class Operands(_Mode):  # type: ignore[no-untyped-call]
    """Dispatch mode that keeps copies of the operands of operators with steps, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[torch.Tensor] = []
        self.is_undefined = False
        """True if a floating-point number was converted to an integer dtype that cannot hold it."""
        self._elements = 0

    def stepped(self, func: Any, given: dict[str, Any], key: str, run: Callable[[], Any]) -> Any:
        if str(func._schema.name) == "aten::_to_copy" and given["dtype"] is not torch.bool:
            info = torch.iinfo(given["dtype"])
            wide = given[key].double()
            fits = (wide > info.min - 1.0) & (wide < info.max + 1.0)
            self.is_undefined |= not bool(fits.all())
        self._elements += given[key].numel()
        if self._elements <= MOST:
            self.kept.append(given[key].double())
        return run()

    @property
    def is_whole(self) -> bool:
        """True if all operands were kept, as they have at most MOST elements."""
        return self._elements <= MOST


class Displaced(_Mode):  # type: ignore[no-untyped-call]
    """Dispatch mode for a float64 run in which all operands of operators with steps are displaced."""

    def __init__(self, shifts: list[torch.Tensor], sign: int) -> None:
        super().__init__()
        self._shifts, self._sign = shifts, sign

    def stepped(self, func: Any, given: dict[str, Any], key: str, run: Callable[[], Any]) -> Any:
        operand = given[key]
        shift = self._shifts[self.number] if self.number < len(self._shifts) else None
        if shift is None or shift.shape != operand.shape:
            return run()
        name = str(func._schema.name).split("::")[-1]
        if name in _CHOOSING - _SEARCHING:
            return self._choice(func, given, key, shift)
        return _called(func, {**given, key: operand + self._sign * shift})

    def _choice(self, func: Any, given: dict[str, Any], key: str, shift: torch.Tensor) -> Any:
        """Raise every second element by rank and lower the rest, so that close neighbours swap ranks."""
        operand = given[key]
        dim = given.get("dim", -1)
        if dim is None or operand.dim() == 0:
            flat, along = operand.reshape(-1), 0
        else:
            flat, along = operand, dim
        ranks = flat.argsort(dim=along).argsort(dim=along).reshape(operand.shape)
        signs = torch.where((ranks % 2 == 0) == (self._sign > 0), 1.0, -1.0).to(operand.dtype)
        changed = _called(func, {**given, key: operand + signs * shift})
        if isinstance(changed, tuple):
            # The values returned are the operand's own at the chosen places, without the displacement.
            place = changed[1]
            wide = place if place.dim() == operand.dim() or operand.dim() == 0 else place.unsqueeze(along)
            values = operand.gather(along, wide) if operand.dim() else operand
            return (values.reshape(place.shape), place, *changed[2:])
        return changed


def _called(func: Any, given: dict[str, Any]) -> Any:
    positional = [a.name for a in func._schema.arguments if not a.kwarg_only]
    named = {a.name: given[a.name] for a in func._schema.arguments if a.kwarg_only}
    return func(*(given[name] for name in positional), **named)


def shifts(native: list[torch.Tensor], truth: list[torch.Tensor], eps: float) -> list[torch.Tensor] | None:
    """Return the possible float error of each operand's elements.

    Returns None if all errors are zero, or if the two runs have different operands.
    """
    if len(native) != len(truth):
        return None
    found = []
    for y, r64 in zip(native, truth, strict=True):
        if y.shape != r64.shape:
            return None
        error = torch.where(torch.isfinite(y) & torch.isfinite(r64), (y - r64).abs(), 0.0)
        if not bool((error > 0).any()):
            found.append(torch.zeros_like(error))
            continue
        typical = error.square().mean(dim=-1, keepdim=True).sqrt() if error.dim() else error
        size = torch.nan_to_num(r64, posinf=0.0, neginf=0.0).abs()
        found.append(TIMES * (error + typical + eps * size))
    return found if any(bool(shift.any()) for shift in found) else None


class Displacements(NamedTuple):
    """Results of the runs with displaced operands, empty if no operand has an error."""

    results: list[Any]
    is_undefined: bool
    """True if a number was converted to an integer dtype that cannot hold it (`Operands.is_undefined`)."""


def displacements(native: Callable[[], Any], truth: Callable[[], Any]) -> Displacements | None:
    """Run the reference in float64 with displaced operands. Return None if it has no operators with steps."""
    with Operands() as own:
        native()
    if not own.kept or not own.is_whole:
        return None
    with Operands() as wide:
        truth()
    by = shifts(own.kept, wide.kept, torch.finfo(torch.float32).eps)
    results = []
    for sign in (1, -1) if by is not None and not own.is_undefined else ():
        with Displaced(by or [], sign):
            results.append(truth())
    return Displacements(results, own.is_undefined)


class Room(NamedTuple):
    """Results that count as right for one output in addition to the truth."""

    results: tuple[torch.Tensor, ...]

    def settled(self, y: torch.Tensor, r64: torch.Tensor) -> torch.Tensor:
        """Return `y` with the truth in place of every element that another right result explains."""
        if not y.is_floating_point():
            right = torch.zeros_like(y, dtype=torch.bool)
            for result in self.results:
                right |= y == result.to(y.dtype)
            return torch.where(right, r64.to(y.dtype), y)
        low, high = r64, r64
        for result in self.results:
            low, high = torch.minimum(low, result), torch.maximum(high, result)
        scale = torch.nan_to_num(r64, posinf=0.0, neginf=0.0).square().mean().sqrt()
        eps = torch.finfo(y.dtype).eps
        is_wide = (high - low) > 8 * eps * scale + 1e-5 * r64.abs()
        given = y.double()
        room = 16 * eps * torch.maximum(scale, r64.abs())
        inside = (given >= low - room) & (given <= high + room)
        return torch.where(is_wide & inside, r64.to(y.dtype), y)


def rooms(truth: Any, displaced: list[Any], own: tuple[Any, ...]) -> list[Room | None]:
    """Return the `Room` of each output, or None for an output that displaced operands leave unchanged.

    `own` holds float32 runs of the reference, whose integer and boolean outputs count as right, too.
    """
    found: list[Room | None] = []
    for number, r64 in enumerate(leaves(truth)):
        runs = displaced if r64.is_floating_point() else [*displaced, *own]
        results = tuple(leaves(run)[number] for run in runs)
        fits = not r64.is_complex() and all(result.shape == r64.shape for result in results)
        differs = fits and any(not torch.equal(result.to(r64.dtype), r64) for result in results)
        found.append(Room(results) if differs else None)
    return found
