"""Faults of tiles at their ends and borders.

The last tile is padded with zeros that count, each tile is normalised by itself, or neighbours in the next
tile are taken for padding.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from agent.diagnosis.graph import Arguments, Rewrite, invoke
from agent.diagnosis.wrong_references.norms import SHAPES, STATISTICS, is_running, norm_of, with_factor
from agent.diagnosis.wrong_references.reductions import axes_of, rows_of, shaped
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_LOOP = r"for|\+=|max|min|exp"
BLOCKS = (4, 8, 16, 32, 64, 128, 256)
Rows = Callable[[Tensor], Tensor]


def _filled(count: int) -> Iterator[tuple[int, int]]:
    """Yield block sizes and the number of elements that pad the last block, each number once."""
    seen = {0}
    for block in BLOCKS:
        more = -count % block
        if more not in seen:
            seen.add(more)
            yield block, more


def _words(block: int, label: str) -> str:
    return (
        f"with the last tile (block) of {block} of {label} filled up with zeros that count: the padding "
        "past the end is not masked"
    )


@rule("_softmax", "_log_softmax", "_safe_softmax", late=True)
def _softmaxes(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    if not x.dim() or x.shape[dim] < 2:
        return
    size = x.shape[dim]

    def along(change: Rows) -> Rewrite:
        return lambda given: change(given["self"].movedim(dim, -1)).movedim(-1, dim)

    logarithm = site.call.name == "_log_softmax"
    function = torch.log_softmax if logarithm else torch.softmax
    for block, more in _filled(size):
        filled = along(lambda r, n=more: function(F.pad(r, (0, n)), -1)[..., :size])  # type: ignore[misc]
        yield site.variant("wrong-fill-value", _words(block, site.label), filled, 4, _LOOP)
    for block in [block for block in BLOCKS if block < size] if not logarithm else ():
        for divided in (False, True):
            words = f"with each tile (block) of {block} of {site.label} normalised by its own sum"
            words += ", their mean taken" if divided else ": partial sums are not combined"
            parts = -(-size // block) if divided else 1
            apart = along(lambda r, b=block, p=parts: _apart(r, b) / p)  # type: ignore[misc]
            yield site.variant("partial-sums-not-combined", words, apart, 4, _LOOP)


def _apart(r: Tensor, block: int) -> Tensor:
    return torch.cat([part.softmax(-1) for part in torch.split(r, block, -1)], -1)


_REDUCES: dict[str, Rows] = {
    "amax": lambda r: r.amax(-1), "amin": lambda r: r.amin(-1), "logsumexp": lambda r: r.logsumexp(-1),
    "prod": lambda r: r.prod(-1), "var": lambda r: r.var(-1), "std": lambda r: r.std(-1),
}  # fmt: skip


@rule("amax", "amin", "logsumexp", "prod", late=True)
def _reductions(site: Site) -> Iterator[Variant]:
    x = site.given["self"]
    axes, reduce = axes_of(x, site.given.get("dim")), _REDUCES[site.call.name]
    rows = rows_of(x, axes)
    for block, more in _filled(rows.shape[-1]):

        def run(given: Arguments, more: int = more) -> Tensor:
            made = reduce(F.pad(rows_of(given["self"], axes), (0, more)))
            return shaped(made, given["self"], axes, bool(given.get("keepdim")))

        yield site.variant("wrong-fill-value", _words(block, site.label), run, 4, _LOOP)


@rule(*SHAPES, late=True)
def _variances(site: Site) -> Iterator[Variant]:
    """Yield variants whose variance also counts zeros past the end, as deviations from the mean."""
    norm, running = norm_of(site), is_running(site)
    count = 1
    for axis in norm.axes:
        count *= norm.view[axis]
    for block, more in _filled(count) if norm.centred and not running else ():
        change = lambda mean, var, n=more: (mean, (var + mean * mean * n / count + norm.eps).rsqrt())  # noqa: E731
        rewrite = with_factor(site, norm, running, change)
        yield site.variant("wrong-fill-value", _words(block, site.label), rewrite, 4, STATISTICS)


@rule("convolution", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "im2col", late=True)
def _borders(site: Site) -> Iterator[Variant]:
    """Yield variants whose tiles along a spatial dim are padded separately.

    The result has to be as large as the input.
    """
    key = "input" if "input" in site.given else "self"
    x, y = site.given[key], site.call.value
    if y is None or y.dim() != x.dim() or site.given.get("transposed"):
        return
    for axis in range(2, x.dim()):
        for block in [block for block in BLOCKS if block < x.shape[axis] == y.shape[axis]]:

            def run(given: Arguments, axis: int = axis, block: int = block) -> Any:
                parts = [
                    invoke(site.call.func, given | {key: part})
                    for part in torch.split(given[key], block, axis)
                ]
                if isinstance(parts[0], tuple):
                    return tuple(torch.cat(same, axis) for same in zip(*parts, strict=True))
                return torch.cat(parts, axis)

            words = (
                f"with the neighbours of {site.label} beyond each tile (block) of {block} along dim {axis} "
            )
            words += "taken for padding: what lies in the next tile (the halo at its border) is not read"
            yield site.variant("lost-lanes", words, run, 4, r"__shared__|threadIdx")
