"""Faults of matrix products and their bias."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis.graph import Arguments, Rewrite, invoke, tensors
from agent.diagnosis.wrong_references.lanes import kept
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
_OPERANDS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"),
}
_INDEX = r"\[[^\]]*\*"


@rule(*_OPERANDS)
def _products(site: Site) -> Iterator[Variant]:
    left, right = _OPERANDS[site.call.name]
    a, b = site.given[left], site.given[right]
    if not a.is_floating_point() or b.dim() < 2:
        return
    for name, words in ((left, "the left operand"), (right, "the right operand")):
        yield from _transposed(site, name, words)
        if site.given[name].dim() == 3 and site.given[name].shape[0] > 1:
            words = f"with {words} of the first batch for every batch"
            rewrite = site.changed(**{name: lambda t: t[:1].expand_as(t)})
            yield site.variant("first-batch-only", words, rewrite, 0, _INDEX)
        for bits, change in PRECISIONS.items():
            both = site.changed(**{left: change, right: change})
            if name == left:
                words = f"with operands rounded to {bits}: reduced precision"
                yield site.variant("reduced-precision", words, both, 2, "half|bfloat|tf32|16")
    if a.shape[-2] == b.shape[-1] and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]:
        exchanged = lambda given: site.changed(**{left: given[right], right: given[left]})(given)  # noqa: E731
        if a.shape == b.shape:
            yield site.variant(
                "operands-swapped", f"with the operands of {site.label} swapped", exchanged, 1, _INDEX
            )
    if "beta" in site.given:
        yield from _added(site)


@rule(*_OPERANDS, late=True)
def _lost(site: Site) -> Iterator[Variant]:
    left = _OPERANDS[site.call.name][0]
    a = site.given[left]
    for subset in kept(a.shape[-1], site.facts) if a.is_floating_point() else ():
        mask = subset.mask.to(a.device)
        words = f"with the inner sums of {site.label} taken {subset.words}"
        rewrite = site.changed(**{left: lambda t, m=mask: t * m})
        yield site.variant(subset.kind, words, rewrite, 4 + subset.rank, "for|<")


def _transposed(site: Site, name: str, spoken: str) -> Iterator[Variant]:
    """Yield variants with the operand transposed, or its memory read with the last two dims exchanged."""

    def square(t: Tensor) -> Tensor:
        return t.transpose(-1, -2)

    def reread(t: Tensor) -> Tensor:
        inner = t.transpose(-1, -2)
        if inner.is_contiguous():
            return inner.reshape(t.shape)
        return t.contiguous().reshape(inner.shape).transpose(-1, -2)

    t = site.given[name]
    if t.shape[-1] == t.shape[-2]:
        words = f"with {spoken} of {site.label} transposed"
        yield site.variant("transposed-operand", words, site.changed(**{name: square}), 0, _INDEX)
    elif min(t.shape[-2:]) > 1:
        words = f"with the memory of {spoken} of {site.label} read as its transpose"
        yield site.variant("transposed-operand", words, site.changed(**{name: reread}), 0, _INDEX)


def _added(site: Site) -> Iterator[Variant]:
    """Yield the faults of a product's bias."""

    def bias(change: Callable[[Tensor], Tensor]) -> Rewrite:
        return site.changed(self=change)

    added = site.given["self"]
    tokens = r"bias|\bb\b|\bb\["
    yield site.variant("bias-missing", "with the bias missing", bias(torch.zeros_like), 0, tokens)
    yield site.variant("bias-doubled", "with the bias added twice", bias(lambda t: 2 * t), 0, tokens)
    yield site.variant("sign-error", "with the bias subtracted", bias(lambda t: -t), 1, tokens)
    shape = site.call.result.shape
    if added.dim() == 1 and added.numel() > 1:

        def by_row(given: Arguments) -> Tensor:
            rows = torch.arange(shape[-2], device=added.device) % added.numel()
            return torch.as_tensor(site.changed(self=given["self"][rows].unsqueeze(-1))(given))

        yield site.variant("bias-wrong-index", "with the bias indexed by the row", by_row, 0, tokens)
        first = bias(lambda t: t[:1].expand_as(t))
        yield site.variant("bias-wrong-index", "with the bias of element 0 for all", first, 1, tokens)
        for step, words in ((-1, "the next"), (1, "the one before")):
            rolled = bias(lambda t, s=step: t.roll(s))  # type: ignore[misc]
            yield site.variant("bias-wrong-index", f"with the bias of {words} element", rolled, 2, tokens)


@rule("addmm", "convolution")
def _late_bias(site: Site) -> Iterator[Variant]:
    """Yield variants that add the bias only after the function of the product."""
    key = "self" if site.call.name == "addmm" else "bias"
    bias, user = site.given[key], _follower(site)
    if bias is None or bias.dim() != 1 or user is None:
        return
    place = 1 if key == "bias" else user.value.dim() - 1
    shape = [-1 if axis == place else 1 for axis in range(user.value.dim())]

    def after(given: Arguments) -> Tensor:
        return torch.as_tensor(invoke(user.func, given) + bias.reshape(shape))

    words = f"with the bias added after {user.name}: the reference adds it before"
    none = site.changed(**{key: torch.zeros_like})
    yield Variant("activation-order", words, {site.call.number: none, user.number: after}, 1, "bias")


def _follower(site: Site) -> Any:
    """Return the one-operand call that takes the result through views, or None."""
    call = site.call
    while len(users := site.tape.users(call)) == 1:
        call = users[0]
        if not call.is_view:
            alone = len([t for t in tensors(call.given) if t.dim()]) == 1 and isinstance(call.result, Tensor)
            return call if alone and call.value is not None and not call.func._schema.is_mutable else None
    return None


def _tf32(t: Tensor) -> Tensor:
    bits = t.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).double()


PRECISIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "float16 (half)": lambda t: t.half().double(),
    "bfloat16": lambda t: t.bfloat16().double(),
    "TF32": _tf32,
}
"""Functions that round a float64 tensor to a lower precision."""
