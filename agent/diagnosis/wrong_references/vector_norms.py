"""Faults of norms: wrong order, missing root, or no absolute value under an odd power."""

import math
from collections.abc import Iterator

import torch

from agent.diagnosis.wrong_references.reductions import BY_ORDER, axes_of, over
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

_ROOT = "sqrt|cbrt|pow"


@rule("linalg_vector_norm")
def _norms(site: Site) -> Iterator[Variant]:
    order = float(site.given["ord"])
    for other, reduce in BY_ORDER.items():
        if other != order:
            kind = "square-omitted" if {other, order} == {1.0, 2.0} else "wrong-norm-order"
            more = "absolute values for squares" if other == 1 else "other powers"
            words = f"with the norm of order {other:g} for {order:g}: {more}"
            yield site.variant(kind, words, over(site, reduce), 1, r"abs|sqrt|\*")
    if not 1 < order < math.inf:
        return
    x = site.given["self"]
    count = math.prod(x.shape[axis] for axis in axes_of(x, site.given.get("dim")))
    powers = "squares" if order == 2 else f"powers of {order:g}"
    word = "square root" if order == 2 else "root"
    words = f"without the {word}: the sum of {powers} for the norm"
    plain = over(site, lambda rows: rows.abs().pow(order).sum(-1))
    yield site.variant("root-omitted", words, plain, 1, _ROOT)
    words = f"with the root of the mean of {powers} for the norm: divided by the count"
    mean = over(site, lambda rows: (rows.abs().pow(order).sum(-1) / count).pow(1 / order))
    yield site.variant("mean-for-sum", words, mean, 1, "sqrt|/")
    for other in (2.0, 3.0):
        if other != order:
            words = f"with the root of order {other:g} (1/{other:g}) of the sum of {powers}"
            rooted = over(site, lambda rows, r=other: rows.abs().pow(order).sum(-1).pow(1 / r))  # type: ignore[misc]
            yield site.variant("wrong-norm-order", words, rooted, 1, _ROOT)
    if order % 2 == 1:
        words = f"with {powers} of the elements themselves, not of their absolute values: the sign stays"
        signed = over(site, lambda rows: rows.pow(order).sum(-1).pow(1 / order))
        yield site.variant("wrong-norm-order", words, signed, 1, "abs")


@rule("prod")
def _signless(site: Site) -> Iterator[Variant]:
    words = f"with the sign of {site.label} lost: the product of the absolute values"
    yield site.variant("sign-error", words, site.around(torch.abs), 1, "log|abs")
