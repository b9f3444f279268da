"""Faults of quotients: a size stands in place of the computed divisor."""

from collections.abc import Iterator

import torch

from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
MOST = 24
"""Maximum number of counts that are tried, nearest sizes first."""


@rule("div")
def _by_sizes(site: Site) -> Iterator[Variant]:
    """Yield variants with a size for a computed divisor, such as all elements for the valid ones."""
    a, b = site.given["self"], site.given["other"]
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or site.tape.name(b) is not None:
        return
    for size in _sizes(site)[:MOST]:
        words = f"divided by {size} for the result of {_maker(site, b)}: a wrong divisor (count)"
        yield site.variant("wrong-divisor", words, site.changed(other=float(size)), 1, "/")


def _maker(site: Site, tensor: Tensor) -> str:
    maker = site.tape.maker(tensor)
    return maker.name if maker is not None else "the other operand"


def _sizes(site: Site) -> list[int]:
    """Return the dim sizes and element counts of the tensors so far, those of the nearest calls first."""
    sizes: list[int] = []
    for call in reversed(site.tape.calls[: site.call.number + 1]):
        for tensor in (*call.given.values(), call.result):
            if isinstance(tensor, Tensor):
                sizes += [*tensor.shape, tensor.numel()]
    return [size for size in dict.fromkeys(sizes) if size > 1]
