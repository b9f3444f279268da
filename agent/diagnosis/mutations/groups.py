"""Groups of calls that are changed together, with the values that they make or take."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Needing, Rewrite, invoke, tensors
from agent.diagnosis.tape import MOVES, Call, Tape
from agent.diagnosis.wrong_references.composing import After, Before
from agent.diagnosis.wrong_references.rules import Variant

Tensor = torch.Tensor
Change = Callable[[Any], Any]
MADE = frozenset({"empty", "zeros", "ones", "full", "arange", "scalar_tensor", "new_zeros", "new_ones"})
"""Operators that create a tensor without tensor operands."""
STILL = MOVES | {"expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "reshape", "unbind", "split"}
"""Operators that move data and compute nothing."""


class Group(NamedTuple):
    """Calls of one operator by one instruction: a single call, or one for each iteration of a loop."""

    calls: tuple[Call, ...]
    number: int
    """Position among the groups with this operator, from 1."""
    of: int
    """Number of groups of the tape with the same operator."""

    @property
    def first(self) -> Call:
        return self.calls[0]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def label(self) -> str:
        """Return the operator in words, such as `add (number 2 of its kind)`."""
        name = self.name.removeprefix("native_").strip("_")
        number = f" (number {self.number} of its kind)" if self.of > 1 else ""
        return f"{name}{number}" + (f", in all {len(self.calls)} steps" if len(self.calls) > 1 else "")

    def rewritten(self, make: Callable[[Call], Rewrite]) -> dict[int, Rewrite]:
        return {call.number: make(call) for call in self.calls}

    def given(self, argument: str, change: Change) -> dict[int, Rewrite]:
        """Return rewrites with one argument changed; `change` receives the value it replaces."""
        return self.rewritten(lambda call: Before(call.func, {argument: change}))

    def result(self, change: Change, place: int = 0) -> dict[int, Rewrite]:
        """Return rewrites with the result at `place` changed."""
        if place == 0:
            return self.rewritten(lambda call: After(call.func, change))
        return self.rewritten(lambda call: lambda given: _one_of(invoke(call.func, given), place, change))


def _one_of(results: tuple[Any, ...], place: int, change: Change) -> tuple[Any, ...]:
    return tuple(change(result) if k == place else result for k, result in enumerate(results))


class Use(NamedTuple):
    """One tensor operand of a group of calls."""

    group: Group
    argument: str
    place: int | None
    """Position in a list of tensors, or None if the argument is a single tensor."""

    @property
    def value(self) -> Tensor:
        given = self.group.first.given[self.argument]
        value: Tensor = given if self.place is None else given[self.place]
        return value

    def changed(self, change: Change) -> dict[int, Rewrite]:
        if self.place is None:
            return self.group.given(self.argument, change)
        place = self.place
        return self.group.given(
            self.argument, lambda items: [change(t) if k == place else t for k, t in enumerate(items)]
        )

    @property
    def is_first(self) -> bool:
        """Return True if this is the operator's first operand."""
        return self.argument == next(iter(self.group.first.given)) and not self.place


class Groups:
    """All groups of calls of a tape, in order."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        found: dict[Any, list[Call]] = {}
        for call in tape.calls:
            found.setdefault((call.place or call.number, call.func), []).append(call)
        numbers: dict[str, int] = {}
        for calls in found.values():
            numbers[calls[0].name] = numbers.get(calls[0].name, 0) + 1
        seen: dict[str, int] = {}
        self.all: list[Group] = []
        for calls in found.values():
            name = calls[0].name
            seen[name] = seen.get(name, 0) + 1
            self.all.append(Group(tuple(calls), seen[name], numbers[name]))
        self._of = {call.number: group for group in self.all for call in group.calls}

    def of(self, call: Call) -> Group:
        return self._of[call.number]

    def computing(self) -> Iterator[Group]:
        """Yield the groups that compute values, rather than create or move tensors."""
        for group in self.all:
            if not (group.first.is_view or group.name in STILL or group.name in MADE):
                yield group

    def uses(self, group: Group) -> Iterator[Use]:
        """Yield each tensor operand of the group once."""
        for argument, given in group.first.given.items():
            if isinstance(given, Tensor):
                yield Use(group, argument, None)
            elif isinstance(given, (list, tuple)) and all(isinstance(t, Tensor) for t in given):
                alike = all(len(call.given[argument]) == len(given) for call in group.calls)
                for place in range(len(given) if alike and len(given) <= 4 else 0):
                    yield Use(group, argument, place)

    @cached_property
    def leaves(self) -> dict[int, Tensor]:
        """Return the inputs, parameters and constants that the calls take, by `id`."""
        found: dict[int, Tensor] = {}
        for call in self.tape.calls:
            for tensor in tensors(call.given):
                if self.tape.maker(tensor) is None:
                    found[id(tensor)] = tensor
        return found

    @cached_property
    def takers(self) -> dict[int, list[Use]]:
        """Return the uses of each tensor, by `id`."""
        found: dict[int, list[Use]] = {}
        for group in self.all:
            for use in self.uses(group):
                found.setdefault(id(use.value), []).append(use)
        return found

    def is_of_batch(self, tensor: Tensor) -> bool:
        """Return True if the first dim is the batch, that is as long as the first dim of a result."""
        made = tensors(self.tape.result)
        return bool(tensor.dim() and any(t.dim() and t.shape[0] == tensor.shape[0] for t in made))

    def spoken(self, tensor: Tensor) -> str:
        """Return the name of an input or parameter, or a phrase for the operator that made the tensor."""
        name = self.tape.name(tensor)
        if name is not None:
            return f"`{name}`"
        maker = self.tape.maker(tensor)
        while maker is not None and (maker.is_view or maker.name in STILL):
            earlier = next((t for t in tensors(maker.given)), None)
            before = self.tape.maker(earlier) if earlier is not None else None
            if before is None or before.number >= maker.number:
                break
            maker = before
        return f"the result of {self.of(maker).label}" if maker is not None else "a constant"

    def ancestors(self, tensor: Tensor, most: int) -> dict[int, int]:
        """Return the tensor's ancestors up to `most` calls back, by `id`, each with its distance in calls."""
        found, now = {id(tensor): 0}, [tensor]
        for step in range(1, most + 1):
            made = (self.tape.maker(t) for t in now)
            now = [t for call in made if call is not None for t in tensors(call.given) if id(t) not in found]
            found.update((id(t), step) for t in now)
        return found


def variant(kind: str, words: str, rewrites: dict[int, Rewrite], rank: int) -> Variant:
    return Variant(kind, words, rewrites, rank)


def taking(call: Call, argument: str, value: Tensor) -> Needing:
    """Return a rewrite of the call that takes another value of the run for an argument."""
    return Needing((value,), lambda given, values: invoke(call.func, given | {argument: values[0]}))
