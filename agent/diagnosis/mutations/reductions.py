"""Mutations of reductions: over other dims, by other operations, and divisors by other norms."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.mutations.groups import Change, Group, Groups, variant
from agent.diagnosis.wrong_references.reductions import axes_of
from agent.diagnosis.wrong_references.rules import Facts, Variant

Tensor = torch.Tensor
Over = Callable[[Tensor, list[int]], Tensor]
APART = 64
"""Maximum size of a dim whose indices are isolated; each index costs one more run."""
OPERATIONS: dict[str, Over] = {
    "sum": lambda t, dims: t.sum(dims, keepdim=True),
    "mean": lambda t, dims: t.mean(dims, keepdim=True),
    "amax": lambda t, dims: t.amax(dims, keepdim=True),
    "amin": lambda t, dims: t.amin(dims, keepdim=True),
    "root of the sum of squares": lambda t, dims: t.square().sum(dims, keepdim=True).sqrt(),
    "sum of squares": lambda t, dims: t.square().sum(dims, keepdim=True),
    "logsumexp": lambda t, dims: t.logsumexp(dims, keepdim=True),
}
_KINDS = {("mean", "sum"): "mean-for-sum", ("sum", "mean"): "sum-for-mean", ("amax", "amin"): "max-for-min",
          ("amin", "amax"): "min-for-max", ("amax", "mean"): "max-for-mean"}  # fmt: skip


FILL = 1e4
"""Minimum magnitude of a value that masks elements out of a maximum or minimum."""
_OTHER_EXTREME = {
    "amax": ("min-for-max", "minimum (smallest)", torch.amin),
    "amin": ("max-for-min", "maximum (largest)", torch.amax),
}


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    reducing = [group for group in groups.computing() if _operation(group) is not None]
    by_dims: dict[tuple[int, tuple[int, ...]], list[Group]] = {}
    for group in reducing:
        x = group.first.given["self"]
        own = tuple(axes_of(x, group.first.given.get("dim")))
        by_dims.setdefault((x.dim(), own), []).append(group)
        for other, operation in OPERATIONS.items() if group.name in OPERATIONS else ():
            if other != group.name and x.is_floating_point():
                words = f"with {other} for {group.name} in {group.label}"
                kind = _KINDS.get((other, group.name), "wrong-combine")
                yield variant(kind, words, group.rewritten(lambda c, o=operation: _over(o, None)), 7)  # type: ignore[misc]
        if group.name in ("amax", "amin") and bool((x.abs() >= FILL).any()):
            kind, other, function = _OTHER_EXTREME[group.name]
            words = f"with the {other} for {group.label}, what is masked out of it as well"
            turned = lambda given, f=function: f(  # noqa: E731
                torch.where(given["self"].abs() >= FILL, -given["self"], given["self"]),
                axes_of(given["self"], given.get("dim")), keepdim=bool(given.get("keepdim")),
            )  # fmt: skip
            yield variant(kind, words, group.rewritten(lambda c, t=turned: t), 5)  # type: ignore[misc]
    yield from _divisors(groups)
    for (dims, own), alike in by_dims.items():
        for chosen in _dims(dims, own):
            said = ", ".join(map(str, chosen)) or "none: each element by itself"
            words = (
                f"over dims {said} in {' and '.join(group.label for group in alike[:3])}; the reference's "
            )
            words += f"are over dims (axes) {', '.join(map(str, own))}"
            rewrites: dict[int, Rewrite] = {}
            for group in alike:
                reduce = _operation(group)
                if reduce is not None:
                    rewrites |= group.rewritten(lambda c, o=reduce, d=chosen: _over(o, list(d)))  # type: ignore[misc]
            yield variant("statistics-over-wrong-axes", words, rewrites, 6)


def _operation(group: Group) -> Over | None:
    """Return the group's reduction with kept dims; None if the group does not reduce."""
    given = group.first.given
    if group.name == "linalg_vector_norm":
        return lambda t, dims: torch.linalg.vector_norm(t, given["ord"], dims, keepdim=True)
    if group.name in ("var", "std"):
        correction = given.get("correction", 1)
        function = torch.var if group.name == "var" else torch.std
        return lambda t, dims: function(
            t, dims, correction=1 if correction is None else correction, keepdim=True
        )
    return OPERATIONS.get(group.name)


def _divisors(groups: Groups) -> Iterator[Variant]:
    """Yield variants of a quotient whose divisor is another reduction of the dividend."""
    for group in groups.computing():
        x, other = group.first.given.get("self"), group.first.given.get("other")
        if group.name != "div" or not isinstance(x, Tensor) or not isinstance(other, Tensor) or x.dim() == 0:
            continue
        if other.numel() >= x.numel() or not x.is_floating_point():
            continue
        for name, operation in OPERATIONS.items():
            for dims in ([*range(x.dim())], [x.dim() - 1], [0]):
                words = f"divided by the {name} of {groups.spoken(x)} over dims {dims} in {group.label}"
                run = lambda given, o=operation, d=dims: given["self"] / o(given["self"], d)  # noqa: E731
                yield variant("wrong-divisor", words, group.rewritten(lambda c, r=run: r), 7)  # type: ignore[misc]


def isolated(groups: Groups) -> Iterator[tuple[str, list[dict[int, Rewrite]], int]]:
    """Yield each reduced dim with every index by itself: words, the rewrites of each index, and their number.

    A sum counts the single element once for each index, so that the reference's divisors stay right.
    """
    by_dim: dict[tuple[int, int], list[Group]] = {}
    for group in groups.computing():
        x = group.first.given.get("self")
        if group.name in (*OPERATIONS, "var", "std", "linalg_vector_norm") and isinstance(x, Tensor):
            for axis in axes_of(x, group.first.given.get("dim")):
                by_dim.setdefault((axis, x.shape[axis]), []).append(group)
    for (axis, size), alike in by_dim.items():
        if 1 < size <= APART:
            alone = [
                {n: r for group in alike for n, r in group.given("self", _alone(axis, place)).items()}
                for place in range(size)
            ]
            labels = " and ".join(group.label for group in alike[:3])
            words = f"with every index of dim {axis} (size {size}) by itself in {labels}: each has "
            words += "its own statistics"
            yield words, alone, size


def _alone(axis: int, place: int) -> Change:
    return lambda x: x.narrow(axis, place, 1).expand_as(x)


def _dims(dims: int, own: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield other sets of dims, ordered by how few dims differ from the reference's."""
    every = [chosen for size in range(dims + 1) for chosen in combinations(range(dims), size)]
    yield from sorted((one for one in every if one != own), key=lambda one: len(set(one) ^ set(own)))


def _over(operation: Over, chosen: list[int] | None) -> Rewrite:
    """Return a rewrite that reduces over `chosen` dims and keeps the shape of the operator's result.

    Dims that are no longer reduced keep their size. With keepdim the result expands to the input's shape.
    """

    def run(given: Arguments) -> Tensor:
        x = given["self"]
        own = axes_of(x, given.get("dim"))
        dims = own if chosen is None else chosen
        made = operation(x, dims) if dims else x
        left = [axis for axis in own if axis not in dims]
        if operation is OPERATIONS["sum"]:
            # A later divisor still counts the elements of dims that are no longer summed.
            made = made * math.prod(x.shape[axis] for axis in left)
        if given.get("keepdim"):
            return made.expand(x.shape) if left else made
        more = [axis for axis in dims if axis not in own]
        if left:
            return made
        made = made.expand([s if k in more else made.shape[k] for k, s in enumerate(x.shape)])
        return made.squeeze(own) if own else made

    return run
