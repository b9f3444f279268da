"""Faults of normalisation: eps, the variance, its divisor and running statistics."""

import math
from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.activations import re_number
from agent.diagnosis.wrong_references.affine import INDEX, Pick, places
from agent.diagnosis.wrong_references.norms import (
    ROOTS,
    SHAPES,
    STATISTICS,
    Norm,
    Pair,
    is_running,
    norm_of,
    own_statistics,
    with_factor,
)
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor

FACTORS: tuple[tuple[str, str, Callable[[Tensor, float], Tensor]], ...] = (
    ("eps-omitted", "with eps omitted", lambda var, eps: var.rsqrt()),
    ("eps-twice", "with eps added twice", lambda var, eps: (var + 2 * eps).rsqrt()),
    ("eps-outside-root", "with eps added outside the root", lambda var, eps: 1 / (var.sqrt() + eps)),
    ("eps-inside-max", "with max(variance, eps) for variance + eps", lambda v, eps: v.clamp_min(eps).rsqrt()),
    ("eps-inside-max", "with max(deviation, eps) for the root of variance + eps",
     lambda var, eps: 1 / var.sqrt().clamp_min(eps)),
    ("eps-twice", "with eps added twice, inside and outside the root",
     lambda var, eps: 1 / ((var + eps).sqrt() + eps)),
    ("wrong-eps", "with eps squared", lambda var, eps: (var + eps * eps).rsqrt()),
    ("root-omitted", "without the square root: divided by the variance plus eps",
     lambda var, eps: 1 / (var + eps)),
    ("operator-missing", "without the division by the deviation", lambda var, eps: torch.ones_like(var)),
    ("wrong-divisor", "multiplied by the deviation for divided by it", lambda var, eps: (var + eps).sqrt()),
)  # fmt: skip


@rule(*SHAPES)
def _factors(site: Site) -> Iterator[Variant]:
    norm, running = norm_of(site), is_running(site)
    eps = norm.eps
    for kind, words, factor in FACTORS:
        rewrite = with_factor(site, norm, running, lambda mean, var, f=factor: (mean, f(var, eps)))  # type: ignore[misc]
        yield site.variant(kind, words, rewrite, 0, ROOTS)
    for value in dict.fromkeys((*site.facts.real, 1e-5, 1e-6, 1e-8, 1e-12, 1e-3)):
        if 0 < value < 1 and value != eps:
            words = f"with eps = {value:g}; the reference has {eps:g}"
            rewrite = with_factor(site, norm, running, lambda mean, var, e=value: (mean, (var + e).rsqrt()))  # type: ignore[misc]
            yield site.variant("wrong-eps", words, rewrite, 1, re_number(value))
    count = math.prod(norm.view[axis] for axis in norm.axes)
    if count > 1 and not running:
        words = f"with the unbiased variance, divided by n - 1 = {count - 1} for n = {count}"
        yield site.variant(
            "unbiased-variance", words,
            with_factor(
                site, norm, running, lambda mean, var: (mean, (var * count / (count - 1) + eps).rsqrt())
            ),
            0, r"- ?1",
        )  # fmt: skip
        words = f"with the sum of squares for their mean: not divided by {count}"
        rewrite = with_factor(site, norm, running, lambda mean, var: (mean, (var * count + eps).rsqrt()))
        yield site.variant("sum-for-mean", words, rewrite, 0, STATISTICS)
        yield from _divisors(site, norm, count)
        words = "with E[x^2] for the variance: the squared mean is not subtracted"
        rewrite = with_factor(
            site, norm, running, lambda mean, var: (mean, (var + mean * mean + eps).rsqrt())
        )
        yield site.variant("mean-not-subtracted", words, rewrite, 0, STATISTICS)
    if norm.centred:
        words = "with the mean not subtracted from x"
        rewrite = with_factor(site, norm, running, lambda mean, var: (0 * mean, (var + eps).rsqrt()))
        yield site.variant("mean-not-subtracted", words, rewrite, 0, "mean")
        words = "without centring at all: the mean is taken for zero"
        rewrite = with_factor(
            site, norm, running, lambda mean, var: (0 * mean, (var + mean * mean + eps).rsqrt())
        )
        yield site.variant("mean-not-subtracted", words, rewrite, 0, "mean")
        words = "with the mean added for subtracted"
        rewrite = with_factor(site, norm, running, lambda mean, var: (-mean, (var + eps).rsqrt()))
        yield site.variant("sign-error", words, rewrite, 1, "mean")
        yield from _unscaled_means(site, norm, running)


@rule(*SHAPES, late=True)
def _factors_of_other_variances(site: Site) -> Iterator[Variant]:
    """Yield variants with two faults in one normalisation: one in the variance and one in the divisor."""
    norm, running = norm_of(site), is_running(site)
    count = math.prod(norm.view[axis] for axis in norm.axes)
    if running or count < 2:
        return
    forms: tuple[tuple[str, str, Callable[[Tensor, Tensor], Tensor]], ...] = (
        ("unbiased-variance", f"with the unbiased variance, divided by n - 1 = {count - 1} for n = {count}",
         lambda mean, var: var * count / (count - 1)),
        ("sum-for-mean", f"with the sum of squares for their mean: not divided by {count}",
         lambda mean, var: var * count),
        ("mean-not-subtracted", "with E[x^2] for the variance: the squared mean is not subtracted",
         lambda mean, var: var + mean * mean),
    )  # fmt: skip
    for kind, words, form in forms:
        for _, said, factor in FACTORS:
            both = lambda mean, var, v=form, f=factor: (mean, f(v(mean, var), norm.eps))  # noqa: E731
            yield site.variant(kind, f"{words}, and {said}", with_factor(site, norm, running, both), 4, ROOTS)


def _unscaled_means(site: Site, norm: Norm, running: bool) -> Iterator[Variant]:
    """Yield variants in scale-and-shift form whose shift lacks the mean's scale or a part of it."""
    for words, lacks_factor, lacks_weight in (
        ("the deviation and the weight (scale)", True, True),
        ("the deviation (scale)", True, False),
        ("the weight (scale)", False, True),
    ):

        def run(given: Arguments, factor: bool = lacks_factor, weight: bool = lacks_weight) -> Tensor:
            mean, var = own_statistics(norm, running, given)
            deviation = (var + norm.eps).rsqrt()
            w = given.get("weight")
            w = mean.new_ones(()) if w is None else w
            scaled = norm.apply(given["input"], 0 * mean, deviation)
            shift = norm.apply(torch.zeros_like(given["input"]), mean, deviation ** (not factor))
            y = norm.affined(scaled, given.get("weight"), given.get("bias"))
            return y + (shift if weight or w.dim() == 0 else shift * w.reshape(norm.affine))

        if site.given.get("weight") is not None or not lacks_weight:
            said = f"with the mean subtracted after {words}, without it: scale missing in the shift"
            yield site.variant("scale-missing", said, site.first(run), 1, "mean|shift")


def _divisors(site: Site, norm: Norm, count: int) -> Iterator[Variant]:
    """Yield variants whose mean or variance is divided by another number than that of the elements."""
    sizes = {*norm.view, *site.call.given["input"].shape, count + 1, *(v for v in site.facts.whole if v > 1)}
    sizes |= {count // size for size in norm.view} | {math.prod(norm.view[-2:])}
    for divisor in sorted(sizes - {count, 0, 1}):
        ratio = count / divisor
        for words, change in (
            ("mean and variance", lambda mean, var, r=ratio: (mean * r, _moved(mean, var, r))),
            ("the variance", lambda mean, var, r=ratio: (mean, var * r)),
            ("the mean", lambda mean, var, r=ratio: (mean * r, var + (mean * (1 - r)).square())),
        ):

            def factor(mean: Tensor, var: Tensor, change: Callable[[Tensor, Tensor], Pair] = change) -> Pair:
                mean, var = change(mean, var)
                return mean, (var + norm.eps).rsqrt()

            spoken = f"with {words} divided by {divisor} for {count}"
            yield site.variant("wrong-divisor", spoken, with_factor(site, norm, False, factor), 2, "/")


def _moved(mean: Tensor, var: Tensor, ratio: float) -> Tensor:
    """Return the variance around a mean scaled by `ratio`, when the variance has the mean's wrong divisor."""
    return (var + (mean * (1 - ratio)).square()) * ratio


@rule(*SHAPES)
def _without_running(site: Site) -> Iterator[Variant]:
    if not is_running(site):
        return
    norm = norm_of(site)

    def batch(correction: int) -> Callable[[Arguments], Tensor]:
        def run(given: Arguments) -> Tensor:
            mean, var = norm.statistics(given["input"])
            count = math.prod(norm.view[axis] for axis in norm.axes)
            var = var * count / max(count - correction, 1)
            y = norm.apply(given["input"], mean, (var + norm.eps).rsqrt())
            return norm.affined(y, given.get("weight"), given.get("bias"))

        return run

    kind = "running-stats-ignored"
    words = "with the statistics of the batch for the running ones"
    yield site.variant(kind, words, site.first(batch(0)), 0, "mean|var")
    yield site.variant(kind, words + " (unbiased variance)", site.first(batch(1)), 0, "mean|var")
    ones = lambda value: torch.ones_like(value)  # noqa: E731
    zeros = lambda value: torch.zeros_like(value)  # noqa: E731
    words = "with the running mean ignored"
    yield site.variant(kind, words, site.changed(running_mean=zeros), 0, "mean")
    yield site.variant(kind, "with the running variance ignored", site.changed(running_var=ones), 0, "var")
    words = "with running mean and variance ignored"
    yield site.variant(kind, words, site.changed(running_mean=zeros, running_var=ones), 0, "mean|var")
    for _, words, pick in places(norm, norm.channels):

        def misread(given: Arguments, pick: Pick = pick) -> Tensor:
            x = given["input"]
            mean, var, w, b = (
                None if given[k] is None else pick(x, given[k], False)
                for k in ("running_mean", "running_var", "weight", "bias")
            )
            assert mean is not None
            assert var is not None
            y: Tensor = (x - mean) * (var + norm.eps).rsqrt()
            y = y if w is None else y * w
            return y if b is None else y + b

        words = f"with statistics, weight and bias {words}"
        yield site.variant("layout-misread", words, site.first(misread), 1, INDEX)
    words = "with the running variance taken for a deviation: no square root"
    factor = lambda mean, var: (mean, 1 / (var + norm.eps))  # noqa: E731
    yield site.variant("root-omitted", words, with_factor(site, norm, True, factor), 0, "var")
