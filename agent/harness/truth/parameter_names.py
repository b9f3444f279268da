"""Assignments of the reference's parameters to ModelNew's tensors, where their names differ.

Assignments depend only on names, shapes and dtypes. A tensor with equal name, shape and dtype on both sides
is assigned to itself. The remaining tensors of the reference and of ModelNew have to match one to one in
shape and dtype. Parameters go to parameters and buffers to buffers if possible. If there are several
assignments, the likeliest comes first, since only outputs show which one is right.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

Names = dict[str, str]
"""ModelNew's name of each tensor, by the reference's name."""
MOST = 24
"""Maximum number of assignments; a model with many tensors of one shape has more."""
_MOST_TENSORS, _LONGEST_NAME, _MOST_DIMS = 4096, 300, 16
_ALL_ORDERS = 5
"""Maximum number of tensors of one shape whose orders are all tried; of more, only pairs are exchanged."""
_ROLES = {"weight": ("weight", "gamma", "scale"), "bias": ("bias", "beta", "shift"), "mean": ("mean",),
          "var": ("var",)}  # fmt: skip
_OTHER_ROLE = 8


class Held(NamedTuple):
    """One tensor of a state_dict: a parameter or a buffer."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    parameter: bool
    """False for a buffer."""


class NoFit(Exception):
    """Exception raised if no assignment fits; the message tells the candidate's author why."""


def claimed(claims: Any) -> list[Held] | None:
    """Return the tensors that the candidate's process claims to hold, or None for an invalid claim."""
    if not isinstance(claims, list) or len(claims) > _MOST_TENSORS:
        return None
    found = []
    for claim in claims:
        if not (isinstance(claim, list) and len(claim) == 4):
            return None
        name, shape, dtype, parameter = claim
        if not (isinstance(name, str) and isinstance(dtype, str) and isinstance(shape, list)):
            return None
        if len(name) > _LONGEST_NAME or len(dtype) > _LONGEST_NAME or len(shape) > _MOST_DIMS:
            return None
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
            return None
        found.append(Held(name, tuple(shape), dtype, parameter is True))
    return found if len({held.name for held in found}) == len(found) else None


def assignments(reference: Sequence[Held], own: Sequence[Held]) -> list[Names]:
    """Return at most MOST assignments, the likeliest first. Raises NoFit if there is none."""
    mine = {held.name: held for held in own}
    rest = [held for held in reference if not _same(held, mine.get(held.name))]
    taken = {held.name for held in reference} - {held.name for held in rest}
    others = [held for held in own if held.name not in taken]
    clash = next((held for held in rest if held.name in mine), None)
    if clash is not None:
        raise NoFit(f"`{clash.name}` has another shape or dtype in ModelNew")
    groups = _groups(rest, others)
    options = [_orders(wanted, given) for wanted, given in groups]
    found = []
    for chosen in _best(options):
        pairs = (
            (held.name, other.name)
            for (wanted, _), order in zip(groups, chosen, strict=True)
            for held, other in zip(wanted, order, strict=True)
        )
        found.append(dict(pairs))
    return found


Group = tuple[list[Held], list[Held]]


def _groups(wanted: list[Held], given: list[Held]) -> list[Group]:
    """Return groups of tensors of equal shape and dtype, each with the reference's and ModelNew's.

    Parameters and buffers are in separate groups if their counts match.
    """
    for with_kind in (True, False):
        keys = [Counter(_key(held, with_kind) for held in side) for side in (wanted, given)]
        if keys[0] == keys[1]:
            return [
                (
                    [h for h in wanted if _key(h, with_kind) == key],
                    [h for h in given if _key(h, with_kind) == key],
                )
                for key in keys[0]
            ]
    raise NoFit(_misfit(wanted, given))


def _misfit(wanted: list[Held], given: list[Held]) -> str:
    """Return a description of the first tensor without counterpart."""
    left = list(given)
    for held in wanted:
        fitting = [other for other in left if _key(held, False) == _key(other, False)]
        if fitting:
            left.remove(fitting[0])
            continue
        for other in left:
            if other.dtype == held.dtype and math.prod(other.shape) == math.prod(held.shape):
                return (
                    f"`{other.name}` of ModelNew is {list(other.shape)}, which has the elements of the "
                    f"reference's `{held.name}` {list(held.shape)} in another shape: hold it as "
                    f"{list(held.shape)} and reshape it where it is used"
                )
        return (
            f"nothing in ModelNew has the shape and dtype of `{held.name}` ({list(held.shape)}, {held.dtype})"
        )
    return f"ModelNew holds `{left[0].name}` besides, which the reference does not have"


def _orders(wanted: list[Held], given: list[Held]) -> list[tuple[int, tuple[Held, ...]]]:
    """Return orders of ModelNew's tensors `given`, each with a penalty, the smallest first."""
    if len(given) <= _ALL_ORDERS:
        orders = list(itertools.permutations(given))
    else:
        orders = [tuple(given)]
        for one, other in itertools.combinations(range(len(given)), 2):
            changed = list(given)
            changed[one], changed[other] = changed[other], changed[one]
            orders.append(tuple(changed))
    scored = [(_against(wanted, given, order), order) for order in orders]
    return sorted(scored, key=lambda pair: pair[0])[:MOST]


def _against(wanted: list[Held], given: list[Held], order: tuple[Held, ...]) -> int:
    """Return the penalty of an order: its inversions, plus `_OTHER_ROLE` for each mismatch of roles."""
    places = [given.index(held) for held in order]
    exchanged = sum(one > other for one, other in itertools.combinations(places, 2))
    roles = [(_role(held.name), _role(other.name)) for held, other in zip(wanted, order, strict=True)]
    return exchanged + _OTHER_ROLE * sum(bool(a and b and a != b) for a, b in roles)


def _role(name: str) -> str | None:
    last = name.rpartition(".")[2].lower()
    return next((role for role, words in _ROLES.items() if any(word in last for word in words)), None)


def _best(options: list[list[tuple[int, tuple[Held, ...]]]]) -> list[list[tuple[Held, ...]]]:
    """Return combinations of one order for each group, by increasing total penalty."""
    start = (0,) * len(options)
    heap, seen = [(sum(group[0][0] for group in options), start)], {start}
    found: list[list[tuple[Held, ...]]] = []
    while heap and len(found) < MOST:
        _, places = heapq.heappop(heap)
        found.append([group[place][1] for group, place in zip(options, places, strict=True)])
        for number in range(len(options)):
            after = (*places[:number], places[number] + 1, *places[number + 1 :])
            if after[number] < len(options[number]) and after not in seen:
                seen.add(after)
                cost = sum(group[place][0] for group, place in zip(options, after, strict=True))
                heapq.heappush(heap, (cost, after))
    return found


def _key(held: Held, with_kind: bool) -> tuple[object, ...]:
    return (held.shape, held.dtype, held.parameter if with_kind else None)


def _same(held: Held, other: Held | None) -> bool:
    return other is not None and (held.shape, held.dtype) == (other.shape, other.dtype)
