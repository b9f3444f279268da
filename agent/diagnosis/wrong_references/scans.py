"""Faults of running sums and products."""

from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.tape import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Along = Callable[[Tensor], Tensor]


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
def _scans(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    if x.dim() == 0 or not x.is_floating_point():
        return
    length = x.shape[dim]
    scan: Along = _SCANS[site.call.name]
    neutral = {"cumsum": 0.0, "cumprod": 1.0}.get(site.call.name, float("-inf"))

    def named(kind: str, words: str, along: Along, rank: int = 0) -> Variant:
        def run(given: Arguments) -> Tensor:
            return along(given["self"].movedim(given["dim"], -1)).movedim(-1, given["dim"])

        return site.variant(kind, f"with {words}", site.first(run), rank, "carry|offset|prefix")

    def exclusive(r: Tensor) -> Tensor:
        return torch.cat([torch.full_like(r[..., :1], neutral), scan(r)[..., :-1]], -1)

    def early(r: Tensor) -> Tensor:
        return torch.cat([scan(r)[..., 1:], scan(r)[..., -1:]], -1)

    yield named("scan-exclusive", "an exclusive scan: each element without itself", exclusive)
    yield named("scan-reversed", "the scan reversed, from the end", lambda r: scan(r.flip(-1)).flip(-1))
    words = "the scan reversed and exclusive"
    yield named("scan-reversed", words, lambda r: exclusive(r.flip(-1)).flip(-1), 1)
    yield named("scan-off-by-one", "the scan one element ahead", early)
    yield named("scan-off-by-one", "the first element left out", lambda r: scan(r) - r[..., :1])
    yield named("operator-missing", "the elements themselves: no scan at all", lambda r: r.clone(), 1)
    yield named(
        "wrong-activation", "the total for every element", lambda r: scan(r)[..., -1:].expand_as(r), 1
    )
    if site.call.name == "cumsum":
        yield named("wrong-divisor", "the running mean", lambda r: scan(r) / _counted(r), 2)
        words = "the running product for the sum"
        yield named("wrong-activation", words, lambda r: r.cumprod(-1), 2)
    for block in sorted({b for b in (*site.facts.blocks(), *site.facts.whole) if 2 <= b < length}):
        words = f"a scan that restarts after every {block}: what earlier tiles (blocks) carry is lost"
        yield named("scan-restarts", words, lambda r, b=block: _restarting(r, b, scan), 2)  # type: ignore[misc]
        words = f"each tile of {block} carrying the total of the tile before alone"
        yield named("scan-restarts", words, lambda r, b=block: _one_carry(r, b, scan), 3)  # type: ignore[misc]


@rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
def _axes(site: Site) -> Iterator[Variant]:
    x, dim, scan = site.given["self"], site.given["dim"], _SCANS[site.call.name]
    for axis in range(x.dim()):
        if axis != dim % x.dim() and x.shape[axis] > 1:
            words = f"with {site.label} along dim {axis}; the reference's is along {dim}"
            yield site.variant("wrong-axis", words, site.changed(dim=axis), 0, "for")

    def flat(given: Arguments) -> Tensor:
        return scan(given["self"].reshape(-1)).reshape(x.shape)

    words = f"with {site.label} running on from row to row: never set back"
    yield site.variant("wrong-axis", words, site.first(flat), 1, "carry|offset|prefix")


def _counted(r: Tensor) -> Tensor:
    return torch.arange(1, r.shape[-1] + 1, device=r.device, dtype=r.dtype)


def _restarting(r: Tensor, block: int, scan: Along) -> Tensor:
    return torch.cat([scan(part) for part in torch.split(r, block, -1)], -1)


def _one_carry(r: Tensor, block: int, scan: Along) -> Tensor:
    parts = list(torch.split(r, block, -1))
    before = [torch.zeros_like(parts[0][..., :1]), *(part.sum(-1, keepdim=True) for part in parts[:-1])]
    return torch.cat([scan(part) + carry for part, carry in zip(parts, before, strict=True)], -1)


_SCANS: dict[str, Along] = {
    "cumsum": lambda r: r.cumsum(-1),
    "cumprod": lambda r: r.cumprod(-1),
    "cummax": lambda r: r.cummax(-1)[0],
    "cummin": lambda r: r.cummin(-1)[0],
    "logcumsumexp": lambda r: r.logcumsumexp(-1),
}
