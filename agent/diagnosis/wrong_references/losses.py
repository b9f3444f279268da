"""Faults of losses: wrong divisor, sign or formula."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
NONE, MEAN, SUM = 0, 1, 2
_LOSSES = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "nll_loss_forward", "nll_loss2d_forward", "soft_margin_loss",
)  # fmt: skip


@rule(*_LOSSES)
def _losses(site: Site) -> Iterator[Variant]:
    x = site.given["self"]
    reduction = site.given.get("reduction", MEAN)
    tokens = "/|sum|mean|total"
    if reduction == MEAN:
        words = f"with the sum of {site.label} for its mean: not divided by {_count(site)}"
        yield site.variant("sum-for-mean", words, site.changed(reduction=SUM), 0, tokens)
        sizes = {x.numel(), *x.shape, *(math.prod(x.shape[:k]) for k in range(1, x.dim()))}
        for divisor in sorted(sizes - {_count(site), 1, 0}):
            words = f"with {site.label} divided by {divisor} for {_count(site)}"
            yield site.variant("wrong-divisor", words, _divided(site, divisor), 1, tokens)
    elif reduction == SUM:
        yield site.variant(
            "mean-for-sum",
            f"with the mean of {site.label} for its sum",
            site.changed(reduction=MEAN),
            0,
            tokens,
        )
    yield site.variant("sign-error", f"with {site.label} negated", site.around(lambda loss: -loss), 0, "-")
    for words, kind, form in _FORMS.get(site.call.name, ()):

        def run(given: Arguments, form: Any = form) -> Tensor:
            each: Tensor = form(given["self"], given["target"], given)
            return each if reduction == NONE else each.mean() if reduction == MEAN else each.sum()

        yield site.variant(kind, f"with {words} for {site.label}", site.first(run), 1, r"\*|abs|log")
    for name in ("beta", "delta"):
        value = site.given.get(name)
        for number in (
            dict.fromkeys((*site.facts.real, 1.0, 0.5, 2.0)) if isinstance(value, (int, float)) else ()
        ):
            if number != value and number > 0:
                words = f"with the threshold ({name}) {number:g}; the reference has {value:g}"
                yield site.variant("wrong-slope", words, site.changed(**{name: number}), 1, f"{name}|<")


def _count(site: Site) -> int:
    nll = site.call.name.startswith("nll")
    return int(site.given["target"].numel() if nll else site.given["self"].numel())


def _divided(site: Site, divisor: int) -> Callable[[Arguments], Any]:
    whole = site.changed(reduction=SUM)

    def run(given: Arguments) -> Any:
        result = whole(given)
        return (result[0] / divisor, *result[1:]) if isinstance(result, tuple) else result / divisor

    return run


def _smooth_unscaled(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    distance, beta = (p - t).abs(), given["beta"]
    return torch.where(distance < beta, 0.5 * distance.square(), distance - 0.5 * beta)


def _smooth_without_half(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    distance, beta = (p - t).abs(), given["beta"]
    return torch.where(distance < beta, distance.square() / beta, distance - 0.5 * beta)


def _smooth_without_offset(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    distance, beta = (p - t).abs(), given["beta"]
    return torch.where(distance < beta, 0.5 * distance.square() / beta, distance)


def _absolute(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    return (p - t).abs()


def _half_squared(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    return 0.5 * (p - t).square()


def _smooth(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    return F.smooth_l1_loss(p, t, reduction="none", beta=given["delta"])


def _squared(p: Tensor, t: Tensor, given: Arguments) -> Tensor:
    return (p - t).square()


def _binary(
    p: Tensor, t: Tensor, given: Arguments, logits: bool, parts: tuple[str, ...] = ("1", "pos", "neg")
) -> Tensor:
    """Return the binary cross entropy with the terms and weights that `parts` name."""
    yes, no = (
        (F.logsigmoid(p), F.logsigmoid(-p))
        if logits
        else (p.log().clamp_min(-100), (1 - p).log().clamp_min(-100))
    )
    factor = given.get("pos_weight")
    positive = t * yes * (factor if factor is not None and "pos" in parts else 1)
    negative = (1 - t) * no * (factor if factor is not None and "both" in parts else 1)
    total = positive * ("1" in parts) + negative * ("neg" in parts)
    weight = given.get("weight")
    return -total * (weight if weight is not None and "unweighted" not in parts else 1)


def _by_row(weight: Any, p: Tensor) -> Any:
    """Return the label weights indexed by the row instead of the label."""
    if not isinstance(weight, Tensor) or p.dim() < 2:
        return weight
    values = weight.expand(p.shape).reshape(-1)[: p.shape[-1]]
    rows = torch.arange(p.shape[0], device=p.device) % values.numel()
    return values[rows].reshape(-1, *[1] * (p.dim() - 1))


def _binary_forms(logits: bool) -> tuple[tuple[str, str, Any], ...]:
    def form(*parts: str) -> Any:
        return lambda p, t, g: _binary(p, t, g, logits, parts)

    def naive(p: Tensor, t: Tensor, g: Arguments) -> Tensor:
        single = p.float()
        return ((1 + single.exp()).log() - t * single).double()

    found = [
        ("the positive weight (pos_weight) ignored", "weight-ignored", form("1", "neg")),
        (
            "the positive weight (pos_weight) on both terms",
            "weight-wrong-place",
            form("1", "pos", "neg", "both"),
        ),
        (
            "the positive weight (pos_weight) on the negative term",
            "weight-wrong-place",
            form("1", "neg", "both"),
        ),
        ("the weight ignored", "weight-ignored", form("1", "pos", "neg", "unweighted")),
        ("the term of the positive targets alone", "operator-missing", form("1", "pos")),
        ("the term of the negative targets alone", "operator-missing", form("neg")),
        ("the targets inverted", "sign-error", lambda p, t, g: _binary(p, 1 - t, g, logits)),
        (
            "log2 for the natural logarithm",
            "base-2-for-e",
            lambda p, t, g: _binary(p, t, g, logits) / math.log(2),
        ),
    ]
    for name, key in (("weight", "weight"), ("positive weight (pos_weight)", "pos_weight")):
        by_row = lambda p, t, g, k=key: _binary(p, t, g | {k: _by_row(g.get(k), p)}, logits)  # noqa: E731
        found.append((f"the {name} indexed by the row, not by the label,", "wrong-axis", by_row))
    if logits:
        found.append(("log(1 + exp(x)), whose exp overflows in float32,", "overflow-to-nan", naive))
        twice = lambda p, t, g: _binary(p.sigmoid(), t, g, True)  # noqa: E731
        found.append(("the sigmoid applied twice", "operator-doubled", twice))
    return tuple(found)


_FORMS: dict[str, tuple[tuple[str, str, Any], ...]] = {
    "binary_cross_entropy_with_logits": _binary_forms(True),
    "binary_cross_entropy": _binary_forms(False),
    "mse_loss": (
        ("the absolute difference", "square-omitted", _absolute),
        ("half the squared difference", "wrong-divisor", lambda p, t, g: 0.5 * _squared(p, t, g)),
    ),
    "l1_loss": (("the squared difference", "square-omitted", _squared),),
    "smooth_l1_loss": (
        ("the quadratic part not divided by beta", "wrong-divisor", _smooth_unscaled),
        ("the quadratic part without its factor 0.5", "scale-missing", _smooth_without_half),
        ("the linear part without its offset", "operator-missing", _smooth_without_offset),
        ("the absolute difference everywhere", "wrong-activation", _absolute),
        ("the squared difference everywhere", "wrong-activation", _squared),
        ("half the squared difference everywhere", "wrong-activation", _half_squared),
        ("the Huber loss", "wrong-divisor", lambda p, t, g: F.huber_loss(p, t, "none", g["beta"])),
    ),
    "huber_loss": (
        ("the smooth L1 loss", "wrong-divisor", _smooth),
        ("the absolute difference everywhere", "wrong-activation", _absolute),
        ("half the squared difference everywhere", "wrong-activation", _half_squared),
    ),
}  # fmt: skip
