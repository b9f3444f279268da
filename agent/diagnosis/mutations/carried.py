"""Mutations of a state carried through a loop: it is read on the wrong side of its update."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Needing, Rewrite, invoke, tensors
from agent.diagnosis.mutations.groups import Group, Groups, taking, variant
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import USUAL_BLOCKS, Facts, Variant

Tensor = torch.Tensor
LEAST = 3
"""Minimum number of steps of a loop."""


class Carried(NamedTuple):
    """State before (`given`) and after (`made`) each step, in the order of the steps."""

    given: list[Tensor]
    made: list[Tensor]
    update: Group


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    for state in _states(groups):
        for side, mine, other, words in (
            (1, state.made, state.given, "before its update (the old one, of the step before)"),
            (-1, state.given, state.made, "after its update (the new one)"),
        ):
            yield from _read(groups, state, mine, other, words, side)
        yield from _begun_anew(groups, state)


def _begun_anew(groups: Groups, state: Carried) -> Iterator[Variant]:
    """Yield variants in which each chunk of steps starts anew instead of from the preceding chunk's state."""
    steps, start = len(state.given), state.given[0]
    takers = [
        (group, name)
        for group in groups.computing()
        if len(group.calls) == steps
        for name in group.first.given
        if all(call.given[name] is t for call, t in zip(group.calls, state.given, strict=True))
    ]
    starts = [(start, "the starting state")] + [(torch.zeros_like(start), "zero")] * bool(start.any())
    for block in [block for block in USUAL_BLOCKS if block < steps] if takers else ():
        for begin, said in starts:
            rewrites: dict[int, Rewrite] = {
                call.number: taking(call, name, begin)
                for group, name in takers
                for call in group.calls[block::block]
            }
            words = (
                f"with the state beginning anew from {said} at every {block}th step: each chunk (tile) of "
            )
            words += f"{block} forgets what earlier ones held"
            yield variant("scan-restarts", words, rewrites, 5)


def _states(groups: Groups) -> Iterator[Carried]:
    """Yield states: results of a loop's instruction that the next step of the same loop takes."""
    for group in groups.computing():
        if len(group.calls) < LEAST or not all(isinstance(call.result, Tensor) for call in group.calls):
            continue
        made = [call.result for call in group.calls]
        places = {id(t): step for step, t in enumerate(made)}
        taker = next(
            (
                (other, name)
                for other in groups.all
                if len(other.calls) == len(made)
                for name in other.first.given
                if all(places.get(id(call.given[name])) == step for step, call in enumerate(other.calls[1:]))
            ),
            None,
        )
        start = taker[0].first.given[taker[1]] if taker is not None else None
        if isinstance(start, Tensor) and start.shape == made[0].shape:
            yield Carried([start, *made[:-1]], made, group)


def _read(
    groups: Groups, state: Carried, mine: list[Tensor], other: list[Tensor], words: str, side: int
) -> Iterator[Variant]:
    """Yield variants in which an instruction of the loop takes `other` instead of `mine`."""
    for group in groups.computing():
        if group is state.update or len(group.calls) != len(mine):
            continue
        for name, value in group.first.given.items():
            if value is not mine[0] or any(
                call.given[name] is not t for call, t in zip(group.calls, mine, strict=True)
            ):
                continue
            if side < 0 and _makes(groups, group, state.update):
                continue
            rewrites: dict[int, Rewrite] = {
                call.number: taking(call, name, t) for call, t in zip(group.calls, other, strict=True)
            }
            yield variant(
                "state-order", f"with the state {words} in {group.label}: in another order", rewrites, 5
            )
    if side > 0:
        yield from _collected(groups, mine, other, words)


def _collected(groups: Groups, mine: list[Tensor], other: list[Tensor], words: str) -> Iterator[Variant]:
    """Yield variants whose stack or concatenation of all steps' states takes `other` in place of `mine`."""
    for call in groups.tape.calls:
        items = call.given.get("tensors")
        if call.name in ("stack", "cat") and isinstance(items, (list, tuple)) and len(items) == len(mine):
            forth = all(a is b for a, b in zip(items, mine, strict=True))
            if forth or all(a is b for a, b in zip(items, reversed(mine), strict=True)):
                needs = tuple(other if forth else reversed(other))
                words = f"with the states {words} in {call.name}: in another order"
                yield variant("state-order", words, {call.number: Needing(needs, _joining(call))}, 5)
                return


def _joining(call: Call) -> Callable[[Arguments, Sequence[Tensor]], Any]:
    return lambda given, values: invoke(call.func, given | {"tensors": list(values)})


def _makes(groups: Groups, group: Group, update: Group) -> bool:
    """Return True if the state's update depends on a result of the instruction."""
    return any(id(t) in groups.ancestors(update.first.result, 12) for t in tensors(group.first.result))
