"""Faults of running sums, products and extremes, and of recurrences written out step by step."""

from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.composing import After, Form
from agent.diagnosis.wrong_references.rules import Site, Variant, rule
from agent.diagnosis.wrong_references.scanning import OPERATIONS, Scan, parts_of, scanned, with_places

Tensor = torch.Tensor
_NAMES = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
_TOKENS = "carry|offset|prefix"
LONGEST = 64
"""Maximum number of tiles of a scan; smaller tile sizes are not tried."""
MANY = 8
"""Minimum number of stacked results that count as a recurrence."""
Change = tuple[str, str, dict[str, Any], int, str]


@rule(*_NAMES)
def _scans(site: Site) -> Iterator[Variant]:
    x = site.given["self"]
    if x.dim() == 0:
        return
    own = parts_of(site.call.name, site.given, site.call.result)
    compute = with_places if isinstance(site.call.result, tuple) else scanned
    segments = roles.are_segments(site.tape, site.call)
    for kind, words, changed, rank, tokens in _changes(site, own):
        if segments and kind in ("scan-exclusive", "scan-off-by-one"):
            kind, words = (
                "scan-off-by-one",
                f"{words}: segments, which it numbers, begin one late (off by one)",
            )
        yield site.variant(kind, f"with {words}", Form(compute, own, changed), rank, tokens)
    words = "with the elements themselves: no scan at all"
    yield site.variant("operator-missing", words, site.first(_itself), 1, _TOKENS)
    yield from _shifted(site, own)


def _changes(site: Site, own: Scan) -> Iterator[Change]:
    yield from _elements(own)
    yield from _axes(site, own)
    yield from _tiles(site, own)
    yield from _rows(site, own)
    yield from _operations(own)
    if isinstance(site.call.result, tuple):
        yield from _places(site)


def _itself(given: Arguments) -> Tensor:
    return torch.as_tensor(given["self"]).clone()


def _elements(own: Scan) -> Iterator[Change]:
    words = "an exclusive scan: each element without itself"
    yield "scan-exclusive", words, {"takes": "exclusive"}, 0, _TOKENS
    yield "scan-reversed", "the scan reversed, from the end", {"reverse": True}, 0, _TOKENS
    words = "the scan reversed and exclusive"
    yield "scan-reversed", words, {"reverse": True, "takes": "exclusive"}, 1, _TOKENS
    yield "scan-off-by-one", "the scan one element ahead", {"takes": "ahead"}, 0, _TOKENS
    yield "scan-off-by-one", "the first element left out", {"takes": "without first"}, 0, _TOKENS
    rank = 1 if own.dtype.is_floating_point else 3
    yield "wrong-activation", "the total for every element", {"takes": "total"}, rank, _TOKENS
    for start in (0.0, 1.0, -1.0):
        if start != OPERATIONS[own.operation].neutral:
            words = f"the scan starting at {start:g} (its initial value)"
            yield "reduction-start-value", words, {"start": start}, 0, r"=\s*-?[\d.]+f?;"


def _axes(site: Site, own: Scan) -> Iterator[Change]:
    x: Tensor = site.given["self"]
    for axis in range(x.dim()):
        if axis != own.dim and x.shape[axis] > 1:
            words = f"{site.label} along dim {axis}; the reference's is along {own.dim}"
            yield "wrong-axis", words, {"dim": axis}, 0, "for"


def _tiles(site: Site, own: Scan) -> Iterator[Change]:
    length = site.given["self"].shape[own.dim]
    blocks = sorted({b for b in (*site.facts.blocks(), *site.facts.whole) if 2 <= b < length})
    for block in [b for b in blocks if length <= b * LONGEST]:
        words = f"a scan that restarts after every {block}: what earlier tiles (blocks) carry is lost"
        yield "scan-restarts", words, {"tile": (block, "lost")}, 2, _TOKENS
        for mode, said in _MODES.items():
            words = f"each tile (block) of {block} carrying {said}"
            yield "scan-restarts", words, {"tile": (block, mode)}, 3, _TOKENS
        for name in ("cumsum", "cumprod"):
            if name != own.operation:
                words = f"each tile (block) of {block} combined with its carry by the wrong operation: "
                words += f"the {OPERATIONS[name].spoken} (added up for multiplied, or the reverse)"
                yield "wrong-combine", words, {"tile": (block, "all"), "joined": name}, 3, _TOKENS
        for warp in (32, 16):
            if block > warp and block % warp == 0:
                words = (
                    f"the sums of the warps of a tile of {block} not combined: every {warp} elements begin at"
                )
                apart = f"{words} the tile's carry"
                yield "scan-restarts", apart, {"tile": (block, "all"), "warp": warp}, 3, _TOKENS
                apart += ", and the last warp's alone carried on"
                yield "scan-restarts", apart, {"tile": (block, "last warp"), "warp": warp}, 3, _TOKENS


_MODES = {
    "one": "the total of the tile before alone",
    "first": "the total of the first tile alone",
    "late": "totals one tile too late: that of the tile before is missing",
    "without last": "totals that leave out each tile's last element",
    "last element": "the last element of each tile for its total",
}


def _rows(site: Site, own: Scan) -> Iterator[Change]:
    x: Tensor = site.given["self"]
    rest = [axis for axis in range(x.dim()) if axis != own.dim]
    for place, axis in enumerate(rest):
        if x.shape[axis] > 1:
            for mode, which in (("all", "all rows"), ("one", "the row")):
                words = (
                    f"each row carrying on from {which} before it along dim {axis}: never set back (reset)"
                )
                yield "scan-not-reset", words, {"rows": (mode, place)}, 1, _TOKENS
    count = x.numel() // max(x.shape[own.dim], 1)
    for step in sorted({s for s in (1, 2, 4, *site.facts.whole) if 1 <= s < count and count <= s * 512}):
        words = f"each row carrying on from the row {step} before it: the carry is never set back (reset)"
        yield "scan-not-reset", words, {"rows": ("rows", step)}, 2, _TOKENS


def _operations(own: Scan) -> Iterator[Change]:
    for name in _NAMES:
        if name != own.operation and (own.dtype.is_floating_point or name != "logcumsumexp"):
            spoken = OPERATIONS[name].spoken
            words = f"the running {spoken} for the {OPERATIONS[own.operation].spoken}"
            kind = {"cummax": "max-for-min", "cummin": "min-for-max"}.get(name, "wrong-activation")
            pair = own.operation in ("cummax", "cummin")
            yield kind if pair else "wrong-activation", words, {"operation": name}, 2, "max|min|\\*|\\+"
    if own.operation == "logcumsumexp":
        words = "exp of the elements themselves: without their maximum it overflows in float32"
        yield "lse-without-max", words, {"operation": "overflowing"}, 0, "exp|log"
        words = (
            "the row's maximum subtracted: exp underflows to zero in float32 before it, and log gives -inf"
        )
        yield "underflow-to-zero", words, {"operation": "underflowing"}, 0, "exp|log"


def _places(site: Site) -> Iterator[Change]:
    words = "the index of the first of equal elements; the reference takes the last (ties)"
    yield "tie-order", words, {"first_of_equal": True}, 1, "<|>"
    for block in sorted({b for b in (*site.facts.blocks(), *site.facts.whole) if b > 1}):
        words = f"indices that are counted from the start of each tile (block) of {block}"
        yield "wrong-index-base", words, {"counted": block}, 2, r"\[.*\] ="


def _shifted(site: Site, own: Scan) -> Iterator[Variant]:
    """Yield faults of a scan that the reference makes exclusive by padding it at the front."""
    x, result = site.given["self"], site.call.result

    def compute(given: Arguments, parts: Scan) -> Tensor:
        return scanned({"self": x}, parts)

    for cut in site.tape.users(site.call) if isinstance(result, Tensor) else ():
        for pad in site.tape.users(cut) if cut.name == "slice" else ():
            exclusive = own._replace(takes="exclusive")
            if pad.name != "constant_pad_nd" or not torch.equal(compute({}, exclusive), pad.result):
                continue
            words = "an inclusive scan: each element takes itself in"
            inclusive = ("scan-inclusive", words, {"takes": "inclusive"}, 0, _TOKENS)
            for kind, said, changed, rank, tokens in (inclusive, *_changes(site, exclusive)):
                rewrite = Form(compute, exclusive, changed)
                yield Variant(kind, f"with {said}", {pad.number: rewrite}, rank, tokens)


@rule("stack")
def _recurrences(site: Site) -> Iterator[Variant]:
    """Yield variants with a wrong initial state of a recurrence that begins with its first element."""
    parts = site.given["tensors"]
    start = site.tape.maker(parts[0]) if len(parts) >= MANY else None
    if start is None or start.name != "select" or start.given["index"] != 0:
        return
    products = [call.given["other"] for call in site.tape.calls if call.name == "mul"]
    for factor in sorted({0.0, *(value for value in products if isinstance(value, float))}):
        words = f"with the first element multiplied with {factor:g}: the initial state (start) is zero"
        yield Variant(
            "wrong-initial-state", words, {start.number: _times(start.func, factor)}, 0, r"=\s*0|\[0\]"
        )


def _times(func: Any, factor: float) -> After:
    return After(func, lambda result: factor * result)
