"""Faults of classification losses: weights, ignored classes, smoothed labels and the divisor."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
NONE, MEAN, SUM = 0, 1, 2
_LOSS = r"weight|target|ignore|/"


class Loss(NamedTuple):
    """Parts of a classification loss; the defaults are those of the reference."""

    of: Callable[[Tensor, Tensor], Tensor] | None = None
    """Function of log probabilities (rows by classes) and targets that returns each row's loss.

    None stands for -log p of the target.
    """
    weight: Callable[[Tensor, Tensor], Tensor] | None = None
    """Function of weights and targets that returns each row's factor; None: the target's weight."""
    counted: Callable[[Tensor], Tensor] | None = None
    """Function of the mask of valid rows that returns the rows to sum; None: the valid rows."""
    divisor: Callable[["Rows"], Any] | None = None
    """Divisor of a mean; None: the sum of the weights of the summed rows."""


class Rows(NamedTuple):
    """Rows of the loss: the values from which a divisor may be computed."""

    targets: Tensor
    valid: Tensor
    weights: Tensor
    classes: int
    samples: int


_FORMS: tuple[tuple[str, str, Loss, str], ...] = (
    ("weight-ignored", "with the class weights ignored", Loss(
        weight=lambda w, t: torch.ones_like(w)[t], divisor=lambda r: r.valid.sum()), "weighted"),
    ("weight-ignored", "with the class weights ignored in the sum, not in its divisor", Loss(
        weight=lambda w, t: torch.ones_like(w)[t], divisor=lambda r: (r.weights * r.valid).sum()),
     "weighted mean"),
    ("sum-for-mean", "with the sum of the losses for their mean: not divided", Loss(
        divisor=lambda r: 1), "mean"),
    ("wrong-divisor", "divided by the number of rows (count), not by the sum of their weights", Loss(
        divisor=lambda r: r.valid.sum()), "weighted mean"),
    ("wrong-divisor", "divided by the number of all rows (count), the ignored among them", Loss(
        divisor=lambda r: r.targets.numel()), "mean"),
    ("wrong-divisor", "divided by the sum of the weights of all rows, the ignored among them", Loss(
        divisor=lambda r: r.weights.sum()), "weighted ignored mean"),
    ("wrong-divisor", "divided by the sum of all class weights", Loss(
        divisor=lambda r: None), "classes"),
    ("ignored-class-counted", "with the ignored class counted like any other: no ignore_index", Loss(
        counted=torch.ones_like, divisor=lambda r: r.weights.sum()), "ignored"),
    ("ignored-class-counted", "with the ignored class in the sum, though not in its divisor", Loss(
        counted=torch.ones_like, divisor=lambda r: (r.weights * r.valid).sum()), "ignored mean"),
    ("scale-doubled", "with the class weights applied twice", Loss(
        weight=lambda w, t: w[t].square()), "weighted"),
    ("index-ignored", "with the weight of class 0 for every class", Loss(
        weight=lambda w, t: w[0 * t]), "weighted"),
    ("index-ignored", "with the weights indexed by the row, not by its class", Loss(
        weight=lambda w, t: w[torch.arange(t.numel(), device=t.device).reshape(t.shape) % w.numel()]),
     "weighted"),
    ("index-off-by-one", "with the class after the target: the index is off by one", Loss(
        of=lambda p, t: -p.gather(1, ((t + 1) % p.shape[1]).unsqueeze(1)).squeeze(1)), "any"),
    ("index-off-by-one", "with the class before the target: the index is off by one", Loss(
        of=lambda p, t: -p.gather(1, ((t - 1) % p.shape[1]).unsqueeze(1)).squeeze(1)), "any"),
    ("index-ignored", "with class 0 for every target: the targets are ignored", Loss(
        of=lambda p, t: -p[:, 0]), "any"),
    ("sum-for-mean", "with every class in the sum, not the target's alone", Loss(
        of=lambda p, t: -p.sum(1)), "any"),
    ("log-missing", "with the probability for its logarithm", Loss(
        of=lambda p, t: -p.exp().gather(1, t.unsqueeze(1)).squeeze(1)), "any"),
    ("base-2-for-e", "with log2 for the natural logarithm", Loss(
        of=lambda p, t: -p.gather(1, t.unsqueeze(1)).squeeze(1) / 0.6931471805599453), "any"),
)  # fmt: skip


class _Given(NamedTuple):
    logs: Tensor
    targets: Tensor
    weights: Tensor
    valid: Tensor
    reduction: int
    shape: Any
    class_weights: Tensor | None


def _given(given: Arguments) -> _Given:
    """Return the call's arguments flattened to rows by classes."""
    logs, targets, weight = given["self"], given["target"], given["weight"]
    rows = (
        logs
        if logs.dim() == 2
        else logs.unsqueeze(0)
        if logs.dim() == 1
        else logs.movedim(1, -1).flatten(0, -2)
    )
    flat = targets.reshape(-1)
    valid = flat != given["ignore_index"]
    classes = torch.where(valid, flat, flat.clamp(0, rows.shape[1] - 1))
    table = rows.new_ones(rows.shape[1]) if weight is None else weight
    return _Given(rows, classes, table, valid, given["reduction"], targets.shape, weight)


def _computed(parts: _Given, loss: Loss) -> Tensor:
    own = -parts.logs.gather(1, parts.targets.unsqueeze(1)).squeeze(1)
    each = own if loss.of is None else loss.of(parts.logs, parts.targets)
    weights = parts.weights[parts.targets]
    applied = weights if loss.weight is None else loss.weight(parts.weights, parts.targets)
    counted = parts.valid if loss.counted is None else loss.counted(parts.valid)
    each = each * applied * counted
    if parts.reduction == NONE:
        return each.reshape(parts.shape)
    if parts.reduction == SUM:
        return each.sum()
    if loss.divisor is None:
        return each.sum() / (applied * counted).sum()
    samples = parts.shape[0] if len(parts.shape) else 1
    made = loss.divisor(Rows(parts.targets, parts.valid, weights, parts.logs.shape[1], samples))
    return torch.as_tensor(each.sum() / (parts.weights.sum() if made is None else made))


@rule("nll_loss_forward", "nll_loss2d_forward")
def _classes(site: Site) -> Iterator[Variant]:
    """Yield variants with one part of the loss changed."""
    given = _given(site.given)
    traits = {"any"} | ({"mean"} if given.reduction == MEAN else set())
    if given.class_weights is not None:
        traits |= {"weighted", "classes"} if given.reduction == MEAN else {"weighted"}
    if not bool(given.valid.all()) or site.given["ignore_index"] >= 0:
        traits |= {"ignored"}
    for kind, words, loss, needed in _FORMS:
        if set(needed.split()) <= traits:
            spoken = words if words.startswith("with") else f"with {site.label} {words}"
            rewrite = site.first(lambda g, f=loss: _computed(_given(g), f))  # type: ignore[misc]
            yield site.variant(kind, spoken, rewrite, 1 if needed == "any" else 0, _LOSS)
    if given.reduction == MEAN:
        samples = given.shape[0] if len(given.shape) else 1
        sizes = {"samples": samples, "classes": given.logs.shape[1], "values": given.logs.numel()}
        for name, size in sizes.items():
            divided = Loss(divisor=lambda r, n=size: n)  # type: ignore[misc]
            words = f"with {site.label} divided by the number of {name} ({size})"
            rewrite = site.first(lambda g, f=divided: _computed(_given(g), f))  # type: ignore[misc]
            yield site.variant("wrong-divisor", words, rewrite, 1, "/")


class _Smoothed(NamedTuple):
    """Cross entropy with smoothed labels, which torch computes as the sum of two losses."""

    end: Call
    """Call that adds the two losses."""
    share: float
    """Label smoothing: the weight of the smoothed part."""


def _smoothed(site: Site) -> _Smoothed | None:
    """Return the label smoothing, found as a mul by 1 - s and an add after the loss, or None."""
    users = site.tape.users(site.call)
    scaled = next((u for u in users if u.name == "mul" and isinstance(u.given["other"], float)), None)
    ends = site.tape.users(scaled) if scaled is not None else []
    if scaled is None or len(ends) != 1 or ends[0].name != "add":
        return None
    return _Smoothed(ends[0], 1 - scaled.given["other"])


Smoothing = Callable[[Tensor, Tensor, float, int], Tensor]
"""Function of -log p of the target, its sum over all classes, the smoothing and the class count."""
_SMOOTHINGS: tuple[tuple[str, str, Smoothing], ...] = (
    ("smoothing-missing", "without label smoothing", lambda own, all_, s, c: own),
    ("smoothing-missing", "with the target's part of smoothed labels alone: the other classes have no share",
     lambda own, all_, s, c: (1 - s) * own),
    ("wrong-divisor", "with the label smoothing shared by the other classes alone: s / (classes - 1)",
     lambda own, all_, s, c: (1 - s) * own + s / (c - 1) * (all_ - own)),
    ("wrong-divisor", "with the label smoothing divided by classes - 1 for every class",
     lambda own, all_, s, c: (1 - s) * own + s / (c - 1) * all_),
    ("wrong-divisor", "with the label smoothing not divided by the number of classes",
     lambda own, all_, s, c: (1 - s) * own + s * all_),
    ("operator-missing", "with the target not scaled by 1 - s under label smoothing",
     lambda own, all_, s, c: own + s / c * all_),
    ("operator-missing", "with the uniform part of label smoothing alone",
     lambda own, all_, s, c: s / c * all_),
    ("operands-swapped", "with the label smoothing s and 1 - s exchanged",
     lambda own, all_, s, c: s * own + (1 - s) / c * all_),
    ("last-element-left-out", "with the target left out of the smoothed part of the labels",
     lambda own, all_, s, c: (1 - s) * own + s / c * (all_ - own)),
    ("sign-error", "with the smoothed part of the labels subtracted",
     lambda own, all_, s, c: (1 - s) * own - s / c * all_),
)  # fmt: skip


@rule("nll_loss_forward", "nll_loss2d_forward")
def _smoothing(site: Site) -> Iterator[Variant]:
    """Yield variants with another form of label smoothing, or with faulty weights or divisors."""
    smoothed = _smoothed(site)
    if smoothed is None:
        return
    given = _given(site.given)
    plain: tuple[tuple[str, str, Loss], ...] = (("", "", Loss()),)
    losses = plain + tuple((kind, words, loss) for kind, words, loss, needed in _FORMS if needed != "any")
    for kind, words, loss in losses:
        for smoothing_kind, smoothing_words, form in (*_SMOOTHINGS, _SMOOTH) if not kind else (_SMOOTH,):
            rewrite = _smoothly(given, loss, smoothed.share, form)
            spoken = words or smoothing_words
            spoken = spoken if spoken.startswith("with") else f"with the loss {spoken}"
            yield Variant(kind or smoothing_kind, spoken, {smoothed.end.number: rewrite}, 0, _LOSS)


_SMOOTH: tuple[str, str, Smoothing] = ("", "", lambda own, all_, s, c: (1 - s) * own + s / c * all_)


def _smoothly(given: _Given, loss: Loss, share: float, form: Smoothing) -> Callable[[Arguments], Tensor]:
    """Return the whole cross entropy; each class has its own weight in the smoothed part."""

    def run(_: Arguments) -> Tensor:
        table = given.weights
        if loss.weight is not None:
            table = loss.weight(table, torch.arange(table.numel(), device=table.device))
        own = -given.logs.gather(1, given.targets.unsqueeze(1)).squeeze(1) * table[given.targets]
        every = -(given.logs * table).sum(1)
        each = form(own, every, share, given.logs.shape[1])
        counted = given.valid if loss.counted is None else loss.counted(given.valid)
        each = each * counted
        if given.reduction == NONE:
            return each.reshape(given.shape)
        weights = given.weights[given.targets]
        divisor = (table[given.targets] * counted).sum()
        if loss.divisor is not None:
            rows = Rows(given.targets, given.valid, weights, given.logs.shape[1], given.shape[0])
            made = loss.divisor(rows)
            divisor = given.weights.sum() if made is None else made
        return torch.as_tensor(each.sum() if given.reduction == SUM else each.sum() / divisor)

    return run
