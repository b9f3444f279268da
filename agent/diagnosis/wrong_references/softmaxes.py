"""Faults of softmax, log-softmax and log-sum-exp."""

import math
from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.lanes import kept
from agent.diagnosis.wrong_references.reductions import axes_of, rows_of, shaped
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Along = Callable[[Tensor], Tensor]
"""Function of rows along the last dimension."""
_LOG2 = math.log(2.0)


def _tokens(kind: str) -> str:
    return "exp2|log2|__exp" if kind.startswith("base") else "exp|log|max"


@rule("_softmax", "_log_softmax", "_safe_softmax")
def _softmax(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    logarithm = site.call.name == "_log_softmax"
    own: Along = (lambda r: r.log_softmax(-1)) if logarithm else (lambda r: r.softmax(-1))
    for axis in range(x.dim()):
        if axis != dim % max(x.dim(), 1) and x.shape[axis] > 1:
            words = f"with {site.label} over dim {axis}; the reference's is over {dim}"
            yield site.variant("softmax-wrong-axis", words, site.changed(dim=axis), 0, "for|exp")

    def whole(given: Arguments) -> Tensor:
        return own(given["self"].reshape(-1)).reshape(given["self"].shape)

    yield site.variant(
        "softmax-wrong-axis", f"with {site.label} over all elements at once", whole, 1, "for|exp"
    )
    if x.dim() and dim % x.dim() != x.dim() - 1:

        def rows(given: Arguments) -> Tensor:
            return own(given["self"].reshape(-1, x.shape[dim])).reshape(x.shape)

        words = f"with {site.label} over {x.shape[dim]} neighbours in memory, as if dim {dim} were the last"
        yield site.variant("softmax-wrong-axis", words, rows, 1, "for|exp")
    for kind, words, along in _LOG_FORMS if logarithm else _FORMS:
        yield site.variant(kind, words, _along(along), 1, _tokens(kind))


@rule("_softmax", "_log_softmax", "_safe_softmax", late=True)
def _lost(site: Site) -> Iterator[Variant]:
    x, dim = site.given["self"], site.given["dim"]
    logarithm = site.call.name == "_log_softmax"
    own: Along = (lambda r: r.log_softmax(-1)) if logarithm else (lambda r: r.softmax(-1))
    for subset in kept(x.shape[dim] if x.dim() else 1, site.facts):
        mask = subset.mask.to(x.device)

        def partial(r: Tensor, m: Tensor = mask) -> Tensor:
            below = r[..., m].logsumexp(-1, keepdim=True)
            return r - below if logarithm else (r - below).exp()

        words = f"with the sum of {site.label} taken {subset.words}"
        yield site.variant(subset.kind, words, _along(partial), 4 + subset.rank, "for|shfl|<")

        def left_out(r: Tensor, m: Tensor = mask) -> Tensor:
            return (own(r.masked_fill(~m, -math.inf))).nan_to_num(neginf=-math.inf)

        if not logarithm:
            words = f"with {site.label} taken {subset.words}, the others being 0"
            yield site.variant(subset.kind, words, _along(left_out), 4 + subset.rank, "for|shfl|<")


def _along(change: Along) -> Callable[[Arguments], Tensor]:
    def run(given: Arguments) -> Tensor:
        return change(given["self"].movedim(given["dim"], -1)).movedim(-1, given["dim"])

    return run


def _overflowing(r: Tensor) -> Tensor:
    powers = r.float().exp()
    return (powers / powers.sum(-1, keepdim=True)).double()


def _overflowing_log(r: Tensor) -> Tensor:
    single = r.float()
    return (single - single.exp().sum(-1, keepdim=True).log()).double()


def _largest(r: Tensor) -> Tensor:
    return r.amax(-1, keepdim=True)


_FORMS: tuple[tuple[str, str, Along], ...] = (
    ("base-2-for-e", "with powers of 2 for powers of e (exp2)", lambda r: (r * _LOG2).softmax(-1)),
    ("base-10-for-e", "with powers of 10 for powers of e (exp10)", lambda r: (r * math.log(10)).softmax(-1)),
    ("lse-without-max", "without subtracting the maximum: exp overflows in float32", _overflowing),
    ("operator-missing", "without the division by the sum", lambda r: (r - _largest(r)).exp()),
    ("operator-missing", "without the division by the sum or the maximum subtracted", lambda r: r.exp()),
    ("wrong-activation", "with the logarithm of the softmax", lambda r: r.log_softmax(-1)),
    ("lse-without-max", "with the maximum subtracted in the sum, not in the numerator",
     lambda r: r.exp() / (r - _largest(r)).exp().sum(-1, keepdim=True)),
    ("lse-without-max", "with the maximum subtracted in the numerator, not in the sum",
     lambda r: (r - _largest(r)).exp() / r.exp().sum(-1, keepdim=True)),
    ("sign-error", "of the negated input", lambda r: (-r).softmax(-1)),
    ("operator-missing", "without exp: divided by the plain sum", lambda r: r / r.sum(-1, keepdim=True)),
    ("wrong-activation", "with the sigmoid for the softmax", lambda r: r.sigmoid()),
)  # fmt: skip
_LOG_FORMS: tuple[tuple[str, str, Along], ...] = (
    ("operator-missing", "without the logarithm: the softmax itself (exp)", lambda r: r.softmax(-1)),
    ("base-2-for-e", "with log2 for the natural logarithm",
     lambda r: r - _largest(r) - (r - _largest(r)).exp().sum(-1, keepdim=True).log2()),
    ("base-2-for-e", "with the result in base 2 (log2 of the softmax)", lambda r: r.log_softmax(-1) / _LOG2),
    ("base-2-for-e", "with powers of 2 for powers of e (exp2)",
     lambda r: r - _largest(r) - ((r - _largest(r)) * _LOG2).exp().sum(-1, keepdim=True).log()),
    ("base-2-for-e", "with exp2 and log2 for exp and log",
     lambda r: r - _largest(r) - ((r - _largest(r)) * _LOG2).exp().sum(-1, keepdim=True).log2()),
    ("base-10-for-e", "with log10 for the natural logarithm",
     lambda r: r - _largest(r) - (r - _largest(r)).exp().sum(-1, keepdim=True).log10()),
    ("lse-without-max", "without subtracting the maximum: exp overflows in float32", _overflowing_log),
    ("max-not-added-back", "with the maximum subtracted in the sum and not added back",
     lambda r: r - (r - _largest(r)).exp().sum(-1, keepdim=True).log()),
    ("operator-missing", "with the maximum subtracted and nothing else", lambda r: r - _largest(r)),
    ("sign-error", "negated", lambda r: -r.log_softmax(-1)),
    ("operator-missing", "without the logarithm of the sum: x - max - sum",
     lambda r: r - _largest(r) - (r - _largest(r)).exp().sum(-1, keepdim=True)),
)  # fmt: skip


@rule("logsumexp")
def _logsumexp(site: Site) -> Iterator[Variant]:
    for kind, words, reduce in _SUM_FORMS:

        def run(given: Arguments, reduce: Along = reduce) -> Tensor:
            x = given["self"]
            axes = axes_of(x, given["dim"])
            return shaped(reduce(rows_of(x, axes)), x, axes, given["keepdim"])

        yield site.variant(kind, words, run, 1, _tokens(kind))


def _moved(r: Tensor) -> Tensor:
    return r - _largest(r)


_SUM_FORMS: tuple[tuple[str, str, Along], ...] = (
    ("max-not-added-back", "with the maximum subtracted and not added back",
     lambda r: _moved(r).exp().sum(-1).log()),
    ("lse-without-max", "without subtracting the maximum: exp overflows in float32",
     lambda r: r.float().exp().sum(-1).log().double()),
    ("base-2-for-e", "with log2 for the natural logarithm",
     lambda r: _moved(r).exp().sum(-1).log2() + r.amax(-1)),
    ("base-2-for-e", "with the whole result in base 2", lambda r: r.logsumexp(-1) / _LOG2),
    ("base-2-for-e", "with exp2 for exp", lambda r: (_moved(r) * _LOG2).exp().sum(-1).log() + r.amax(-1)),
    ("base-2-for-e", "with exp2 and log2 for exp and log",
     lambda r: (_moved(r) * _LOG2).exp().sum(-1).log2() + r.amax(-1)),
    ("base-2-for-e", "with exp2 for exp, the maximum not rescaled",
     lambda r: (r * _LOG2).exp().sum(-1).log()),
    ("base-10-for-e", "with log10 for the natural logarithm",
     lambda r: _moved(r).exp().sum(-1).log10() + r.amax(-1)),
    ("operator-missing", "without the logarithm: the sum of the powers", lambda r: r.exp().sum(-1)),
    ("operator-missing", "with the largest element alone: nothing is summed", lambda r: r.amax(-1)),
    ("mean-for-sum", "with the mean for the sum of the powers",
     lambda r: r.logsumexp(-1) - math.log(r.shape[-1])),
    ("max-not-added-back", "with the maximum added twice", lambda r: r.logsumexp(-1) + r.amax(-1)),
    ("max-not-added-back", "with the maximum subtracted again", lambda r: r.logsumexp(-1) - 2 * r.amax(-1)),
    ("sign-error", "negated", lambda r: -r.logsumexp(-1)),
)  # fmt: skip
