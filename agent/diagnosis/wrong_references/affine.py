"""Faults of weight and bias after a normalisation: ignored, exchanged or wrongly indexed."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.composing import Last
from agent.diagnosis.wrong_references.norms import (
    SHAPES,
    Norm,
    norm_of,
)
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
INDEX = r"\bint (?:c|ch|channel|g|group|col\w*|f|feature)\b(?= =)"
"""Regular expression for a line that computes the index into weight and bias."""


Affine = Callable[[Norm, Tensor, Tensor | None, Tensor | None], Tensor]
WEIGHT, BIAS = "weight|gamma", "bias|beta"
_OF_BOTH: tuple[tuple[str, str, Affine, int, str], ...] = (
    ("affine-ignored", "with weight and bias ignored", lambda n, y, w, b: y, 0, f"{WEIGHT}|{BIAS}"),
    ("weight-ignored", "with the weight ignored", lambda n, y, w, b: n.affined(y, None, b), 0, WEIGHT),
    ("gamma-beta-swapped", "with weight (gamma) and bias (beta) exchanged",
     lambda n, y, w, b: n.affined(y, b, w), 0, f"{WEIGHT}|{BIAS}"),
    ("activation-order", "with the bias added before the weight is applied",
     lambda n, y, w, b: n.affined(n.affined(y, None, b), w, None), 1, f"{WEIGHT}|{BIAS}"),
)  # fmt: skip
_OF_WEIGHT: tuple[tuple[str, str, Affine, int, str], ...] = (
    ("scale-doubled", "with the weight applied twice",
     lambda n, y, w, b: n.affined(n.affined(y, w, None), w, b), 1, WEIGHT),
    ("constant-added", "with 1 + weight for the weight",
     lambda n, y, w, b: n.affined(y, None if w is None else 1 + w, b), 2, WEIGHT),
)  # fmt: skip
_OF_BIAS: tuple[tuple[str, str, Affine, int, str], ...] = (
    ("bias-missing", "with the bias missing", lambda n, y, w, b: n.affined(y, w, None), 0, BIAS),
    ("bias-doubled", "with the bias added twice",
     lambda n, y, w, b: n.affined(n.affined(y, w, b), None, b), 0, BIAS),
    ("sign-error", "with the bias subtracted",
     lambda n, y, w, b: n.affined(y, w, None if b is None else -b), 0, BIAS),
)  # fmt: skip


@rule(*SHAPES)
def _affines(site: Site) -> Iterator[Variant]:
    """Yield the faults of weight and bias."""
    norm, weight, bias = norm_of(site), site.given.get("weight"), site.given.get("bias")
    forms = _OF_WEIGHT if weight is not None else ()
    forms += _OF_BIAS if bias is not None else ()
    forms += _OF_BOTH if weight is not None and bias is not None else ()
    for kind, words, form, rank, tokens in forms:
        yield site.variant(kind, words, _affine(site, norm, form), rank, tokens)
    if weight is None:
        return
    name = "the weight" if bias is None else "weight and bias"
    if bias is None:
        ignored = _affine(site, norm, lambda n, y, w, b: y)
        yield site.variant("weight-ignored", "with the weight ignored", ignored, 0, WEIGHT)
    for kind, words, pick in places(norm, weight.numel()):

        def misread(n: Norm, y: Tensor, w: Any, b: Any, pick: Pick = pick) -> Tensor:
            return pick(y, w, True) + (0 if b is None else pick(y, b, False))

        yield site.variant(kind, f"with {name} {words}", _affine(site, norm, misread), 1, INDEX)
        if bias is None:
            continue

        def scaled(n: Norm, y: Tensor, w: Any, b: Any, pick: Pick = pick) -> Tensor:
            return n.affined(pick(y, w, True), None, b)

        def shifted(n: Norm, y: Tensor, w: Any, b: Any, pick: Pick = pick) -> Tensor:
            return n.affined(y, w, None) + pick(y, b, False)

        yield site.variant(kind, f"with the weight alone {words}", _affine(site, norm, scaled), 2, INDEX)
        words = f"with the bias alone {words}"
        yield site.variant("bias-wrong-index", words, _affine(site, norm, shifted), 2, INDEX)


def _affine(site: Site, norm: Norm, form: Affine) -> Rewrite:
    """Return the operator with `form` in place of its affine step."""
    without: dict[str, Any] = {name: None for name in ("weight", "bias") if name in site.given}

    def change(y: Tensor, given: Arguments) -> Tensor:
        return form(norm, y, given.get("weight"), given.get("bias"))

    return Last(site.call.func, without, change)


Pick = Callable[[Tensor, Tensor, bool], Tensor]


def places(norm: Norm, count: int) -> Iterator[tuple[str, str, Pick]]:
    """Yield wrong indices into weight and bias of `count` elements."""

    def at(index: Callable[[Tensor], Tensor]) -> Pick:
        def pick(y: Tensor, values: Tensor, scales: bool) -> Tensor:
            chosen = values.reshape(-1)[index(y) % count]
            return y * chosen if scales else chosen

        return pick

    def flat(y: Tensor) -> Tensor:
        return torch.arange(y.numel(), device=y.device).reshape(y.shape)

    def channel(y: Tensor) -> Tensor:
        inner = math.prod(y.shape[2:])
        return flat(y) // inner % max(norm.channels, 1)

    per = norm.channels // norm.groups
    if norm.groups > 1 and per > 1:
        yield "affine-per-group", "indexed by the group, not the channel", at(lambda y: channel(y) // per)
        yield "affine-per-group", "indexed by the channel within its group", at(lambda y: channel(y) % per)
    if norm.channels > 1:
        words = "indexed by the last position, not the channel: [i % channels] of the flat index"
        yield "layout-misread", words, at(flat)
        words = "indexed by the row, not the channel"
        yield "layout-misread", words, at(lambda y: flat(y) // y.shape[-1])
    else:
        yield "layout-misread", "indexed by the row, not the column", at(lambda y: flat(y) // y.shape[-1])
        for axis in range(1, len(norm.view) - 1):
            inner = math.prod(norm.view[axis + 1 :])
            words = f"indexed along dim {axis}, not the last"
            yield "layout-misread", words, at(lambda y, k=inner, a=axis: flat(y) // k % y.shape[a])  # type: ignore[misc]
    yield "bias-wrong-index", "of element 0 for all", at(lambda y: 0 * flat(y))
