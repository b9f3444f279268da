"""Mutations of written-out variances and means: divided by another count, such as n - 1 for n."""

import math
from collections.abc import Iterator

import torch

from agent.diagnosis.mutations.groups import Change, Group, Groups, variant
from agent.diagnosis.wrong_references.reductions import axes_of
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
_ROOTS = frozenset({"sqrt", "rsqrt", "pow"})
NEAR = 6
"""Maximum number of operators between the quotient and the root."""
_BETWEEN = frozenset({"sub", "add", "clamp", "clamp_min", "relu", "mul", "div", "maximum"})


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    counted = list(_counts(groups))
    for group in groups.computing():
        for name, count in counted if group.name in ("sum", "index_add", "scatter_add") else ():
            fitting = _fitting(group.first.value, count)
            if fitting is not None:
                words = f"with the result of {group.label} divided by {name}, a count: the mean for the sum"
                divided = lambda t, n=fitting: t / n.to(t.dtype).clamp_min(1)  # noqa: E731
                yield variant("mean-for-sum", words, group.result(divided), 6)
        divisor = _count(groups, group)
        if divisor is None:
            continue
        for at in _variances(groups, group):
            for kind, words, step in (
                ("unbiased-variance", "n - 1 for n: unbiased (less one)", 1),
                ("biased-variance", "n for n - 1: biased", -1),
            ):
                said = f"with the variance ({at.label}) divided by {words}, a wrong divisor (count)"
                yield variant(kind, said, at.result(_times(divisor, step)), 6)


def _counts(groups: Groups) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors of counts, not all equal if computed, each with its description."""
    for group in groups.all:
        value = group.first.value
        if (
            group.name not in ("sum", "sub", "bincount", "count_nonzero", "diff")
            or value is None
            or value.dim() == 0
        ):
            continue
        if (
            len(group.calls) == 1
            and value.numel() > 1
            and _is_whole(value)
            and not bool((value == value.max()).all())
        ):
            yield f"the result of {group.label}", value
    for leaf in groups.leaves.values():
        whole = leaf.dim() == 1 and leaf.numel() > 1 and not leaf.is_floating_point()
        if whole and leaf.dtype is not torch.bool and int(leaf.min()) >= 0:
            yield groups.spoken(leaf), leaf


def _is_whole(value: Tensor) -> bool:
    return bool((value >= 0).all() and (value == value.round()).all())


def _fitting(result: Tensor | None, count: Tensor) -> Tensor | None:
    """Return the count in a shape that broadcasts along the first dims of the result, or None."""
    if result is None or not result.is_floating_point() or result.dim() < count.dim():
        return None
    lined = count.reshape(*count.shape, *[1] * (result.dim() - count.dim()))
    return lined if all(a in (1, b) for a, b in zip(lined.shape, result.shape, strict=True)) else None


def _count(groups: Groups, group: Group) -> Tensor | float | None:
    """Return the divisor in a mean of squares, or None if the group does not compute one."""
    x = group.first.given.get("self")
    if not isinstance(x, Tensor) or len(group.calls) > 1:
        return None
    if group.name == "mean" and _is_of_squares(groups, x):
        return float(math.prod(x.shape[axis] for axis in axes_of(x, group.first.given.get("dim"))))
    summed = groups.tape.maker(x)
    if (
        group.name == "div"
        and summed is not None
        and summed.name in ("sum", "cumsum", "index_add", "scatter_add")
    ):
        other = group.first.given["other"]
        if any(_is_of_squares(groups, given) for given in summed.given.values()):
            return other if isinstance(other, Tensor) else float(other)
    return None


def _is_of_squares(groups: Groups, value: object) -> bool:
    call = groups.tape.maker(value)
    if call is None:
        return False
    squares = call.name == "mul" and call.given["self"] is call.given["other"]
    return squares or call.name in ("square", "pow") and call.given.get("exponent", 2) == 2


def _variances(groups: Groups, group: Group) -> Iterator[Group]:
    """Yield the mean of squares and its difference to the squared mean, if a root follows."""
    now, rooted, less = [group], False, None
    for _ in range(NEAR):
        users = [groups.of(call) for each in now for call in groups.tape.users(each.first)]
        rooted = rooted or any(user.name in _ROOTS for user in users)
        less = less or next((user for user in users if user.name == "sub"), None)
        now = [user for user in users if user.name in _BETWEEN or user.first.is_view]
    if rooted:
        yield group
        if less is not None:
            yield less


def _times(count: Tensor | float, step: int) -> Change:
    def change(t: Tensor) -> Tensor:
        n = torch.as_tensor(count, dtype=t.dtype, device=t.device)
        factor = n / (n - step)
        return t * torch.where(torch.isfinite(factor), factor, torch.ones_like(factor))

    return change
