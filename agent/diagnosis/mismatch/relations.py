"""Outputs that are a simple function of the right output: negated, moved, exchanged, times a constant."""

import math
from collections.abc import Callable, Iterator
from itertools import permutations

import torch

from agent.diagnosis.mismatch.case import Case, Hypothesis

Tensor = torch.Tensor


Change = Callable[[Tensor], Tensor]


def propose_relations(case: Case) -> Iterator[Hypothesis]:
    """Yield hypotheses in which the output is a simple function of the right outputs."""
    for kind, words, rank, tokens, change in _changes(max((t.dim() for t in case.truth), default=0)):
        then = lambda outputs, c=change: [c(t) for t in outputs]  # noqa: E731
        yield _changed(case, Hypothesis(kind, words, lambda: [], rank, tokens, {}, {}, then))
    for order in permutations(range(len(case.truth))) if 1 < len(case.truth) <= 4 else ():
        if list(order) != sorted(order):
            words = f"with its outputs swapped: they come in the order {', '.join(map(str, order))}"
            then = lambda outputs, o=order: [outputs[k] for k in o]  # noqa: E731
            named = Hypothesis("outputs-swapped", words, lambda: [], 1, "return", {}, {}, then)
            yield _changed(case, named)
    yield from multiples(case)


def _changed(case: Case, named: Hypothesis) -> Hypothesis:
    then = named.then
    assert then is not None
    return named._replace(outputs=lambda: then(case.truth))


def _changes(dims: int) -> Iterator[tuple[str, str, int, str, Change]]:
    """Yield kind, words, rank, source tokens and the function applied to an output."""
    yield "sign-error", "negated: the sign is wrong", 2, "-", torch.neg
    yield "truncated-to-integer", "truncated to integers", 2, "int", lambda t: t.double().trunc()
    yield "truncated-to-integer", "rounded to integers", 3, "int", lambda t: t.double().round()
    words = "with the result of the first sample for every sample"
    yield "first-batch-only", words, 2, "blockIdx", lambda t: t[:1].expand_as(t) if t.dim() else t
    for axis in range(dims):
        words = f"in reverse order along dim {axis}"
        yield "layout-misread", words, 3, "", lambda t, a=axis: t.flip(a) if a < t.dim() else t  # type: ignore[misc]
        for step in (1, -1):
            words = f"shifted by one element along dim {axis}: an index is off by one"
            rolled = lambda t, a=axis, s=step: t.roll(s, a) if a < t.dim() else t  # noqa: E731
            yield "index-off-by-one", words, 3, "", rolled
        for other in range(axis):
            words = f"written with dims {other} and {axis} transposed in memory: the layout is misread"
            for turn in (_transposed, _reread):
                turned = lambda t, a=axis, b=other, f=turn: f(t, a, b)  # noqa: E731
                yield "layout-misread", words, 2, r"\[.*\] =", turned


def _transposed(t: Tensor, one: int, other: int) -> Tensor:
    return t.transpose(one, other).reshape(t.shape) if one < t.dim() else t


def _reread(t: Tensor, one: int, other: int) -> Tensor:
    return t.reshape(t.transpose(one, other).shape).transpose(one, other) if one < t.dim() else t


def multiples(case: Case) -> Iterator[Hypothesis]:
    """Yield hypotheses with the right output times or plus a fitted constant.

    A factor is named if sizes of the problem explain it.
    """
    for place, (y, t) in enumerate(zip(case.outputs, case.truth, strict=True)):
        if not t.is_floating_point() or y.shape != t.shape:
            continue
        flat, true = y.reshape(-1).double(), t.reshape(-1).double()
        keep = torch.isfinite(flat) & (true != 0)
        if not bool(keep.any()):
            continue
        factor = float((flat[keep] * true[keep]).sum() / true[keep].square().sum())
        several = int(keep.sum()) > 3
        known = explained(factor, case)
        if factor != 0 and abs(factor - 1) > 1e-4 and (several or known):
            words = f"times {factor:.6g}" + (f" = {known}" if known else "")
            words += ": a wrong divisor or factor (scale)"
            values = lambda f=factor, at=place: [f * u if k == at else u for k, u in enumerate(case.truth)]  # noqa: E731
            yield Hypothesis("wrong-divisor", words, values, 3, "/")
        offset = float((flat[keep] - true[keep]).mean())
        if several and offset:
            values = lambda c=offset, at=place: [u + c if k == at else u for k, u in enumerate(case.truth)]  # noqa: E731
            yield Hypothesis("constant-added", f"plus the constant {offset:.6g}", values, 4)


def explained(factor: float, case: Case) -> str:
    """Name the factor as a size of the problem, its inverse, root or ratio; empty if it is none."""
    sizes = {
        size for t in (*case.inputs, *case.truth, *case.parameters.values()) for size in t.shape if size > 1
    }
    sizes |= {t.numel() for t in (*case.inputs, *case.truth) if t.numel() > 1}

    def close(value: float) -> bool:
        return math.isclose(abs(factor), value, rel_tol=2e-5)

    for size in sorted(sizes):
        named = {
            f"{size}": size,
            f"1/{size}": 1 / size,
            f"sqrt({size})": size**0.5,
            f"1/sqrt({size})": size**-0.5,
            f"{size}/{size - 1}": size / (size - 1),
            f"{size - 1}/{size}": (size - 1) / size,
        }
        for words, value in named.items():
            if close(value):
                return words
    for one, other in permutations(sorted(sizes), 2):
        if close(one / other):
            return f"{one}/{other}"
    dims = [t.shape for t in (*case.inputs, *case.truth)]
    counts = {
        math.prod(shape[a:b])
        for shape in dims
        for a in range(len(shape))
        for b in range(a + 1, len(shape) + 1)
    }
    for count in sorted(count for count in counts if count > 1):
        if close(((count - 1) / count) ** 0.5) or close((count / (count - 1)) ** 0.5):
            words = f"the root of {count - 1}/{count}" if factor < 1 else f"the root of {count}/{count - 1}"
            return f"{words}, a variance divided by the other of n = {count} and n - 1 (biased for unbiased)"
    for value in (0.5, 2.0, math.log(2), 1 / math.log(2)):
        if close(value):
            return f"{value:.4g}"
    return ""
