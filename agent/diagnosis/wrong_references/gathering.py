"""Faults of operators that select elements: tables, slices and transpositions."""

from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_INDEX = r"\[.*\]"


@rule("embedding", "index_select", "gather", "index")
def _tables(site: Site) -> Iterator[Variant]:
    table = site.given["weight"] if site.call.name == "embedding" else site.given["self"]
    key = "indices" if "indices" in site.given else "index"
    axis = site.given.get("dim", 0)
    rows = table.shape[axis]

    def moved(change: Callable[[Tensor], Tensor]) -> Callable[[Arguments], Tensor]:
        def run(given: Arguments) -> Tensor:
            index = given[key]
            several = isinstance(index, (list, tuple))
            new = [None if i is None else change(i) for i in index] if several else change(index)
            return torch.as_tensor(site.changed(**{key: new})(given))

        return run

    first = index_tensor(site, key)
    if first is None or first.dtype not in (torch.int64, torch.int32) or rows < 2:
        return
    for step, words in ((1, "the next row"), (-1, "the row before")):
        shift = moved(lambda i, s=step: (i + s) % rows)  # type: ignore[misc]
        yield site.variant(
            "index-off-by-one", f"with {words} of the table: the index is off by one", shift, 0, _INDEX
        )
    yield site.variant("index-ignored", "with row 0 for every index", moved(torch.zeros_like), 0, _INDEX)
    count = lambda i: torch.arange(i.numel(), device=i.device).reshape(i.shape) % rows  # noqa: E731
    yield site.variant(
        "index-ignored", "with the position for the index that stands there", moved(count), 0, _INDEX
    )
    if first.dim() > 1:
        same = moved(lambda i: i[:1].expand_as(i))
        yield site.variant(
            "first-batch-only", "with the indices of the first sample for every sample", same, 1, _INDEX
        )
        words = "with the indices read transposed"
        turned = moved(lambda i: i.transpose(0, 1).reshape(i.shape))
        yield site.variant("layout-misread", words, turned, 1, _INDEX)
    if table.dim() == 2 and site.call.name in ("embedding", "index_select"):
        key_table = "weight" if site.call.name == "embedding" else "self"
        reread = site.changed(**{key_table: lambda t: t.reshape(t.shape[1], t.shape[0]).t()})
        yield site.variant("transposed-operand", "with the table read as its transpose", reread, 1, _INDEX)


def index_tensor(site: Site, key: str) -> Tensor | None:
    index = site.given[key]
    found = [i for i in index if i is not None] if isinstance(index, (list, tuple)) else [index]
    return found[0] if found else None


@rule("transpose", "permute", "t")
def _transpositions(site: Site) -> Iterator[Variant]:
    """Yield variants that read the operand's memory as already transposed, or transpose the result."""
    result = site.call.result
    if (
        not isinstance(result, Tensor)
        or sum(size > 1 for size in result.shape) < 2
        or not result.is_floating_point()
    ):
        return

    def as_is(given: Arguments) -> Tensor:
        x: Tensor = given["self"]
        return x.reshape(result.shape)

    words = (
        f"with {site.label} ignored: the memory read as if it were of shape {tuple(result.shape)}, its "
        "layout (order of dims) misread"
    )
    kind = "transposed-operand" if result.dim() == 2 else "layout-misread"
    yield site.variant(kind, words, as_is, 2, _INDEX)
    if result.dim() >= 2 and result.shape[-1] == result.shape[-2]:
        turned = site.around(lambda t: t.transpose(-1, -2))
        yield site.variant(
            "transposed-operand", f"with the result of {site.label} transposed", turned, 2, _INDEX
        )


@rule("slice", "select")
def _parts(site: Site) -> Iterator[Variant]:
    x, axis = site.given["self"], site.given["dim"]
    key = "start" if site.call.name == "slice" else "index"
    begin = site.given[key] or 0
    length = site.call.result.shape[axis] if key == "start" else 1
    for other in dict.fromkeys((0, begin - 1, begin + 1, x.shape[axis] - length)):
        if other != begin and 0 <= other <= x.shape[axis] - length:

            def run(given: Arguments, other: int = other) -> Tensor:
                part: Tensor = given["self"].narrow(axis, other, length)
                return part if key == "start" else part.squeeze(axis)

            kind = "index-off-by-one" if abs(other - begin) == 1 else "padding-off-by-one"
            words = (
                f"with elements from {other} on along dim {axis}; the reference takes them from {begin} on"
            )
            words += ": the index is off by one" if abs(other - begin) == 1 else ""
            yield site.variant(kind, words, run, 1, _INDEX)


@rule("cat", "stack")
def _joined(site: Site) -> Iterator[Variant]:
    parts = site.given["tensors"]
    if len(parts) > 1 and all(part.shape == parts[0].shape for part in parts):
        rewrite = site.changed(tensors=lambda given: list(reversed(given)))
        yield site.variant(
            "operands-swapped", f"with the operands of {site.label} swapped", rewrite, 0, "if|<"
        )


@rule("flip", "roll")
def _reordered(site: Site) -> Iterator[Variant]:
    kind = "scan-reversed" if _scanned(site) else "operator-missing"
    words = f"without {site.label}: in the other order (reversed)"
    yield site.variant(kind, words, lambda given: given["self"].clone(), 1, "for")


def _scanned(site: Site) -> bool:
    return any(call.name.startswith("cum") for call in site.tape.calls)
