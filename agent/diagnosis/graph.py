"""A recorded run as a graph that is replayed from the changed calls on, without the reference's Python.

Values that the reference reads as Python numbers (`item`, `tolist`) must stay as recorded. If such a value
differs in a replay, Changed is raised and the reference itself has to be run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any

import torch

Arguments = dict[str, Any]
Rewrite = Callable[[Arguments], Any]
"""Replacement of an operator: a function from its arguments to its result."""
READS = frozenset({"_local_scalar_dense", "item", "equal", "is_nonzero", "nonzero", "unique", "_unique2"})
"""Operators whose results Python reads, or whose result shapes depend on values."""


class Changed(RuntimeError):
    """Raised when a value differs that the reference's Python reads, so that it might branch differently."""


@dataclass(frozen=True)
class Needing:
    """A rewrite that also needs other values of the run, as they are at that point of the replay."""

    needs: tuple[torch.Tensor, ...]
    run: Callable[[Arguments, Sequence[torch.Tensor]], Any]

    def __call__(self, given: Arguments) -> Any:
        raise TypeError("only a graph knows the other values")


def invoke(func: Any, given: Arguments) -> Any:
    """Call the operator with its arguments by name."""
    positional, named = _signature(func)
    return func(*[given[name] for name in positional], **{name: given[name] for name in named})


@cache
def _signature(func: Any) -> tuple[list[str], list[str]]:
    """Return the names of positional arguments and those of keyword-only arguments."""
    schema = func._schema.arguments
    return [a.name for a in schema if not a.kwarg_only], [a.name for a in schema if a.kwarg_only]


def tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors nested in a value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in tensors(item)]


class Graph:
    """The calls of a run in order, and the tensors that each one takes."""

    def __init__(self, calls: Sequence[Any], result: Any, before: Mapping[int, torch.Tensor]) -> None:
        """Build the graph of `calls`.

        `before` holds the original values of inputs and parameters that calls write to, by `id`.
        """
        self._calls, self._result, self._before = list(calls), result, before
        self._dtype = torch.get_default_dtype()
        taken = [{id(t) for t in tensors(call.given)} for call in self._calls]
        self._followed = _followed(self._calls, taken)
        self._taking: dict[int, int] = {}
        """Bit set of the calls that depend directly or indirectly on a tensor, by the tensor's `id`."""
        for number, keys in enumerate(taken):
            for key in keys:
                self._taking[key] = self._taking.get(key, 0) | self._followed[number]
        self._named = [[name for name, value in call.given.items() if tensors(value)] for call in self._calls]
        written = {_memory(t) for call in self._calls for t in call.written}
        self._again = [
            bool(written)
            and any(_memory(t) in written for t in (*tensors(call.given), *tensors(call.result)))
            for call in self._calls
        ]
        """True for calls that are replayed each time, because memory that they read or return is written to.
        """
        self._always = reduce(or_, (self._followed[n] for n, again in enumerate(self._again) if again), 0)

    def play(self, rewrites: Mapping[int, Rewrite], replaced: Mapping[int, torch.Tensor]) -> Any:
        """Return the run's result with calls rewritten by number, and inputs or parameters replaced by `id`.

        Raises Changed.
        """
        new: dict[int, Any] = {key: value.clone() for key, value in self._before.items()}
        new |= {key: value.clone() if key in self._before else value for key, value in replaced.items()}
        played = reduce(or_, (self._followed[number] for number in rewrites), self._always)
        for number in _numbers(reduce(or_, (self._taking.get(key, 0) for key in new), played)):
            rewrite, call = rewrites.get(number), self._calls[number]
            given = dict(call.given)
            for name in self._named[number]:
                given[name] = _exchanged(given[name], new)
            made = self._made(call, rewrite, given, new)
            if rewrite is not None and self._again[number] and not call.is_view:
                made = made if call.func._schema.is_mutable else _own(made)
            if call.name in READS and _read(made) != _read(call.result):
                raise Changed(call.name)
            for old, fresh in zip(tensors(call.result), tensors(made), strict=True):
                new[id(old)] = fresh
        return _exchanged(self._result, new)

    def _made(self, call: Any, rewrite: Rewrite | None, given: Arguments, new: Mapping[int, Any]) -> Any:
        if rewrite is None:
            return invoke(call.func, given)
        if isinstance(rewrite, Needing):
            return rewrite.run(given, [new.get(id(t), t) for t in rewrite.needs])
        if not call.func._schema.is_mutable:
            return rewrite(given)
        return written(rewrite, given)


def _followed(calls: Sequence[Any], taken: Sequence[set[int]]) -> list[int]:
    """Return the bit set of each call's own number and those of all calls that depend on it."""
    takers: dict[int, int] = {}
    found = [0] * len(calls)
    for number in reversed(range(len(calls))):
        found[number] = 1 << number
        for key in {id(t) for t in tensors(calls[number].result)}:
            found[number] |= takers.get(key, 0)
        for key in taken[number]:
            takers[key] = takers.get(key, 0) | found[number]
    return found


def _numbers(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def written(rewrite: Rewrite, given: Arguments) -> Any:
    """Apply a rewrite of an in-place operator: write its result to the first argument and return that."""
    target = next(iter(given.values()))
    copies = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in given.items()}
    target.copy_(rewrite(copies))
    return target


def _read(made: Any) -> Any:
    """Return the part of a result that Python code can see: the tensor shapes, or the value itself."""
    return [t.shape for t in tensors(made)] or made


def _own(made: Any) -> Any:
    """Clone a result that is written to later, so that it has memory of its own."""
    return tuple(map(_own, made)) if isinstance(made, tuple) else made.clone()


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _exchanged(value: Any, new: Mapping[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return new.get(id(value), value)
    if isinstance(value, (list, tuple)):
        items = [_exchanged(item, new) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _exchanged(item, new) for key, item in value.items()}
    return value
