"""Faults of tril and triu: the other triangle, another diagonal, or none."""

from collections.abc import Iterator

import torch

from agent.diagnosis.wrong_references.hiding import FINITE, hiding
from agent.diagnosis.wrong_references.masks import following
from agent.diagnosis.wrong_references.rules import Site, Variant, rule


@rule("tril", "triu")
def _triangles(site: Site) -> Iterator[Variant]:
    stated = site.given["diagonal"]
    missing, sums = "mask-ignored", _sums_up(site)
    for step in (-2, -1, 1, 2):
        words = f"with the diagonal of {site.label} off by {step}: the mask's bound is shifted"
        shift = "mask-shifted"
        # A sum over a triangle is a running sum; a sum over a strict triangle is an exclusive running sum.
        if sums and step == (-1 if site.call.name == "tril" else 1):
            shift, words = "scan-exclusive", f"{words}, exclusive: each element without itself"
        shifted = site.changed(diagonal=stated + step)
        rank = 0 if abs(step) == 1 else 1
        yield site.variant(shift, words, shifted, rank, "<|>")
        filled = following(site, "masked_fill")
        fill = hiding(filled) if filled is not None else None
        if filled is not None and fill is not None:
            rewrites = {site.call.number: shifted, filled.call.number: fill.filled(FINITE)}
            finite = f"{words}, by a large finite number"
            yield Variant(shift, finite, rewrites, 1, "<|>")
    rows, columns = site.given["self"].shape[-2:]
    if rows != columns and stated != columns - rows:
        words = f"with the triangle of {site.label} aligned to the last row and column, not the first"
        yield site.variant("mask-shifted", words, site.changed(diagonal=columns - rows), 1, "<|>")
    turned_kind = "transposed-operand" if _is_data(site) else "mask-inverted"
    other = torch.triu if site.call.name == "tril" else torch.tril
    for step in (0, 1, -1):
        strict = "" if not step else f", its diagonal off by {step}"
        turned = lambda given, s=step: other(given["self"], given["diagonal"] + s)  # noqa: E731
        words = f"with the other triangle{strict}, upper for lower or the reverse: the mask turned round"
        yield site.variant(turned_kind, words, turned, 0 if not step else 1, "<|>")
    whole = lambda given: given["self"].clone()  # noqa: E731
    yield site.variant(missing, f"without {site.label}: nothing is masked", whole, 1, "<|>")


def _is_data(site: Site) -> bool:
    """Return True if the triangle is cut out of data, rather than of a constant that makes a mask."""
    x = site.given["self"]
    return x.is_floating_point() and not bool((x == x.reshape(-1)[:1]).all())


def _sums_up(site: Site) -> bool:
    """Return True if the elements of the triangle are summed, and not by a softmax."""
    seen, left = {site.call.number}, list(site.tape.users(site.call))
    while left:
        call = left.pop()
        if call.name in ("_softmax", "_log_softmax", "logsumexp", "amax", "max"):
            return False
        if call.name in ("sum", "mm", "bmm", "matmul", "cumsum", "mean"):
            return True
        if call.number not in seen:
            seen.add(call.number)
            left += site.tape.users(call)
    return False
