"""Mutations that move an operator along the chain: it works on a value some steps earlier or later."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Needing, Rewrite, invoke, tensors
from agent.diagnosis.mutations.groups import Groups, Use, variant
from agent.diagnosis.roles import is_mask
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
FAR = 6
"""Maximum number of steps by which an operator is moved."""
WIDE = 16
"""Maximum number of chains that are followed at a time."""
UNFIT = (RuntimeError, ValueError, IndexError, TypeError)


class Link(NamedTuple):
    """Call on a chain of values, with the argument and the result that lie on the chain."""

    call: Call
    argument: str
    place: int

    def run(self, value: Tensor, others: dict[int, Tensor]) -> Tensor:
        """Return the result on the chain; `others` holds current values of the other operands, by `id`."""
        given = {name: _now(item, others) for name, item in self.call.given.items()}
        return tensors(invoke(self.call.func, given | {self.argument: value}))[self.place]

    @property
    def taken(self) -> Tensor:
        value: Tensor = self.call.given[self.argument]
        return value

    def others(self) -> list[Tensor]:
        return [t for name, item in self.call.given.items() if name != self.argument for t in tensors(item)]


def _now(item: Any, others: dict[int, Tensor]) -> Any:
    if isinstance(item, Tensor):
        return others.get(id(item), item)
    return [_now(one, others) for one in item] if isinstance(item, (list, tuple)) else item


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    for group in groups.computing():
        if group.first.written or isinstance(group.first.result, tuple):
            continue
        for use in groups.uses(group):
            if use.place is None and _could_move(use):
                yield from _earlier(groups, use)
                yield from _later(groups, use)


def _could_move(use: Use) -> bool:
    """Return True if the operator works on the operand element by element."""
    main, result = use.value, use.group.first.value
    plain = result is not None and main.shape == result.shape and main.dtype == result.dtype
    return plain and main.numel() > 1 and all(t.numel() <= main.numel() for t in _operands(use))


def _operands(use: Use) -> list[Tensor]:
    return Link(use.group.first, use.argument, 0).others()


def _chains(groups: Groups, value: Tensor) -> Iterator[list[Link]]:
    """Yield the chains that lead to the value, each from its first call to its last."""
    now: list[tuple[Tensor, list[Link]]] = [(value, [])]
    for _ in range(FAR):
        longer: list[tuple[Tensor, list[Link]]] = []
        for end, chain in now:
            call = groups.tape.maker(end)
            if call is None or call.written or chain and call.number >= chain[0].call.number:
                continue
            place = next(k for k, t in enumerate(tensors(call.result)) if t is end)
            longer += [
                (given, [Link(call, name, place), *chain])
                for name, given in call.given.items()
                if isinstance(given, Tensor) and given.is_floating_point() and given.numel() > 1
            ]
        now = longer[:WIDE]
        yield from (chain for _, chain in now if not chain[0].call.is_view)


def _earlier(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants that apply the operator to an ancestor of its operand, for this operand alone."""
    group = use.group
    for chain in _chains(groups, use.value):
        rewrites: dict[int, Rewrite] = {}
        for step, call in enumerate(group.calls):
            own = _in_step(groups, chain, step, len(group.calls))
            if own is None or not _fits(call, use.argument, own[0].taken):
                break
            rewrites[call.number] = _through(call, use.argument, own)
        if len(rewrites) == len(group.calls):
            begin = groups.of(chain[0].call).label
            words = f"with {group.label} before {begin}: the reference has it after, in another order"
            yield variant(_kind(use), words, rewrites, 6)


def _in_step(groups: Groups, chain: list[Link], step: int, steps: int) -> list[Link] | None:
    """Return the same chain in another iteration of the loop, or None if the step counts differ."""
    made = []
    for link in chain:
        own = groups.of(link.call).calls
        if len(own) not in (1, steps):
            return None
        made.append(link._replace(call=own[step] if len(own) > 1 else own[0]))
    return made


def _fits(call: Call, argument: str, value: Tensor) -> bool:
    """Return True if the operator's result on this value has the value's shape."""
    try:
        made = invoke(call.func, call.given | {argument: value})
    except UNFIT:
        return False
    return isinstance(made, Tensor) and made.shape == value.shape


def _through(call: Call, argument: str, chain: list[Link]) -> Needing:
    """Return a rewrite that runs the operator on the chain's first value and the chain on its result."""
    needs = (chain[0].taken, *(t for link in chain for t in link.others()))

    def run(given: Arguments, values: Sequence[Tensor]) -> Tensor:
        others = {id(t): value for t, value in zip(needs[1:], values[1:], strict=True)}
        x = invoke(call.func, given | {argument: values[0]})
        for link in chain:
            x = link.run(x, others)
        return torch.as_tensor(x)

    return Needing(needs, run)


def _later(groups: Groups, use: Use) -> Iterator[Variant]:
    """Yield variants that apply the operator later, to a value that depends on its result."""
    seen, now = {use.group.first.number}, list(groups.tape.users(use.group.first))
    for _ in range(FAR):
        following: list[Call] = []
        for call in (call for call in now if call.number not in seen):
            seen.add(call.number)
            following += groups.tape.users(call)
            if not (call.is_view or call.written):
                yield from _moved(groups, use, call)
        now = following[:WIDE]


def _moved(groups: Groups, use: Use, to: Call) -> Iterator[Variant]:
    group, target = use.group, groups.of(to)
    made = tensors(to.result)
    if target is group or len(target.calls) != len(group.calls) or not made:
        return
    if not _fits(group.first, use.argument, made[0]):
        return
    rewrites: dict[int, Rewrite] = group.rewritten(lambda call: lambda given: given[use.argument].clone())
    for own, call in zip(group.calls, target.calls, strict=True):
        rewrites[call.number] = _then(Link(own, use.argument, 0), call)
    words = f"with {group.label} after {target.label}: the reference has it before, in another order"
    yield variant(_kind(use), words, rewrites, 6)


def _then(own: Link, call: Call) -> Needing:
    needs = tuple(own.others())

    def run(given: Arguments, values: Sequence[Tensor]) -> Any:
        others = {id(t): value for t, value in zip(needs, values, strict=True)}
        made = invoke(call.func, given)
        if isinstance(made, tuple):
            # A normalisation also returns its statistics.
            return (own.run(made[0], others), *made[1:])
        return own.run(made, others)

    return Needing(needs, run)


def _kind(use: Use) -> str:
    name, operands = use.group.name, _operands(use)
    if name in ("where", "masked_fill") or name == "mul" and any(map(is_mask, operands)):
        return "mask-wrong-place"
    if name in ("add", "sub") and operands:
        return "residual-wrong-place"
    return "weight-wrong-place" if name in ("mul", "div") and operands else "activation-order"
