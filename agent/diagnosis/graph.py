"""A recorded run as a graph: played again from the changed calls on, without the reference's Python.

What the reference reads as Python numbers (`item`, `tolist`) has to be as it was recorded: Changed is raised
where it is not, and the reference has to be run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any

import torch

Arguments = dict[str, Any]
Rewrite = Callable[[Arguments], Any]
"""What stands for the operator: from its arguments to its result."""
READS = frozenset({"_local_scalar_dense", "item", "equal", "is_nonzero", "nonzero", "unique", "_unique2"})
"""Operators whose results Python reads, or whose results' shapes are values."""


class Changed(RuntimeError):
    """The reference's Python would go another way."""


@dataclass(frozen=True)
class Needing:
    """A rewrite that takes other values of the run besides the operator's arguments, as they are by then."""

    needs: tuple[torch.Tensor, ...]
    run: Callable[[Arguments, Sequence[torch.Tensor]], Any]

    def __call__(self, given: Arguments) -> Any:
        raise TypeError("only a graph knows the other values")


def invoke(func: Any, given: Arguments) -> Any:
    """Calls the operator with arguments by name."""
    positional, named = _signature(func)
    return func(*[given[name] for name in positional], **{name: given[name] for name in named})


@cache
def _signature(func: Any) -> tuple[list[str], list[str]]:
    """The arguments by place, and those by name alone."""
    schema = func._schema.arguments
    return [a.name for a in schema if not a.kwarg_only], [a.name for a in schema if a.kwarg_only]


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of a value in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in tensors(item)]


class Graph:
    """Calls in order, and which tensors each takes."""

    def __init__(self, calls: Sequence[Any], result: Any, before: Mapping[int, torch.Tensor]) -> None:
        """`before`: inputs and parameters that calls write to, as they were, by `id`."""
        self._calls, self._result, self._before = list(calls), result, before
        self._dtype = torch.get_default_dtype()
        taken = [{id(t) for t in tensors(call.given)} for call in self._calls]
        self._followed = _followed(self._calls, taken)
        self._taking: dict[int, int] = {}
        """Who takes a tensor, and what is made of that: the bits of the calls' numbers, by `id`."""
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
        """Calls that are played each time, since something is written to what they take or make."""
        self._always = reduce(or_, (self._followed[n] for n, again in enumerate(self._again) if again), 0)

    def play(self, rewrites: Mapping[int, Rewrite], replaced: Mapping[int, torch.Tensor]) -> Any:
        """The run's result, with calls rewritten and leaves replaced by `id`. Raises Changed."""
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
    """For each call itself and those that are made of what it gives: the bits of their numbers."""
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
    """Those of the bits that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def written(rewrite: Rewrite, given: Arguments) -> Any:
    """What stands for an operator that writes to its first argument, written there."""
    target = next(iter(given.values()))
    copies = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in given.items()}
    target.copy_(rewrite(copies))
    return target


def _read(made: Any) -> Any:
    """What Python sees of a result."""
    return [t.shape for t in tensors(made)] or made


def _own(made: Any) -> Any:
    """In memory of its own, since it is written to later."""
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
