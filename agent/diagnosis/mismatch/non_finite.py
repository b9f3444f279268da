"""Search for operators of the reference whose arguments allow a non-finite result.

Contract: `made(tape, facts, number, target)` yields hypotheses. Each is the reference with NaN inserted where
one operator, written less carefully, is undefined. Examples are an empty count, a wholly masked row, an
overflowing exponential, or a root of a value that rounding makes negative. A match confirms only the places
of the non-finite values.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch.case import Hypothesis
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import Call, Tape
from agent.diagnosis.wrong_references import Facts, Site
from agent.diagnosis.wrong_references.composing import After
from agent.diagnosis.wrong_references.rules import UNFIT
from agent.records import Finding

Tensor = torch.Tensor
MADE_HERE = frozenset(
    {"overflow-to-nan", "lse-without-max", "divide-by-zero", "underflow-to-zero", "nan-output",
     "non-finite-output", "catastrophic-cancellation", "eps-omitted"}
)  # fmt: skip
"""Kinds of faults that only claim where values become non-finite."""
LARGEST_EXPONENT = 88.7
"""Argument above which exp is infinite in float32."""
SMALLEST_EXPONENTS = (-103.9, -87.3)
"""Arguments below which exp is zero in float32, with denormals and with denormals flushed to zero."""
MASKED = -1e8
"""Score at or below which an element counts as masked."""
ALMOST_ZERO = 1e-6
"""Share of the largest magnitude below which rounding may make an argument zero or negative."""
NAMED = 3
"""Maximum number of possible causes listed in a finding."""
EXPONENTIALS = ("exp", "_softmax", "_log_softmax", "logsumexp", "logcumsumexp")
ALONE = frozenset({"exp", "sigmoid", "tanh", "softplus", "silu", "mish", "log_sigmoid_forward", "logaddexp"})


class _Place(NamedTuple):
    """A set of elements where an operator may be undefined."""

    kind: str
    words: str
    where: Tensor
    """Mask with the shape of the result, or one that broadcasts to it."""


def only_places(target: Target) -> bool:
    """Return True if every wrong element is non-finite."""
    return not bool(torch.isfinite(target.y[target.wrong]).any())


def with_possible(finding: Finding, places: Iterator[Hypothesis], target: Target, number: int) -> Finding:
    """Add possible origins of non-finite values to a finding; none is certain if a whole output is bad."""
    words: list[str] = []
    for one in places:
        with contextlib.suppress(*UNFIT):
            found = target.match(one.outputs()[number])
            words += [one.words] if found is not None and found.whole and one.words not in words else []
        if len(words) == NAMED:
            break
    if not words:
        return finding
    message = f"{finding.message.rstrip('.')}. As of a reference {'; or '.join(words)}."
    return finding.model_copy(update={"message": message})


def made(tape: Tape, facts: Facts, number: int, target: Target) -> Iterator[Hypothesis]:
    """Yield, for each operator and reason, the reference with NaN where the operator may be undefined.

    Where the output is non-finite, its own values replace the NaN for the comparison.
    """
    if bool(torch.isfinite(target.y).all()):
        return
    for call in tape.calls:
        site = Site(call, tape, facts)
        for reason in _REASONS:
            with contextlib.suppress(*UNFIT):
                for place in reason(site):
                    if bool(place.where.any()):
                        yield _with_nan(tape, call, place, (number, target))


def _with_nan(tape: Tape, call: Call, place: _Place, wrong: tuple[int, Target]) -> Hypothesis:
    number, target = wrong

    def holes(result: Tensor) -> Tensor:
        return result.masked_fill(place.where, torch.nan)

    def outputs() -> list[Tensor]:
        made = tensors(tape.again({call.number: After(call.func, holes)}))
        values = made[number].double()
        own = target.y.reshape(target.shape)
        values = torch.where(torch.isfinite(values) | torch.isfinite(own), values, own)
        return [values if at == number else one for at, one in enumerate(made)]

    return Hypothesis(place.kind, place.words, outputs, 1, r"exp|log|/|sqrt")


def _rows(site: Site) -> Iterator[_Place]:
    """Yield places of rows for which a softmax or log-sum-exp may be undefined.

    These rows are wholly masked, masked in their first tile, or out of the range of exp.
    """
    x, dim = site.given.get("self"), site.given.get("dim", -1)
    dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
    if site.call.name not in EXPONENTIALS[1:] or not isinstance(x, Tensor) or not isinstance(dim, int):
        return
    x, keep = _as_result(site, x, dim)
    masked = (x <= MASKED) | (x == x.new_tensor(torch.finfo(torch.float32).min))
    name = site.label.strip("_")
    full = masked.all(dim, keepdim=keep)
    yield _Place(
        "overflow-to-nan",
        f"not finite (NaN) where all of a row is masked in {name}: -inf - -inf or 0/0 is undefined",
        full,
    )
    for tile in (size for size in site.facts.blocks() if size < x.shape[dim]):
        first = masked.narrow(dim, 0, tile).all(dim, keepdim=keep)
        yield _Place(
            "overflow-to-nan",
            f"not finite (NaN) where the first tile of {tile} in {name} is wholly masked: -inf - -inf in the "
            "running maximum is undefined",
            first,
        )
    large = (x > LARGEST_EXPONENT).any(dim, keepdim=keep)
    yield _Place(
        "lse-without-max",
        f"overflowing where an element of {name} is above {LARGEST_EXPONENT}: exp without the maximum "
        "subtracted is infinite in float32",
        large,
    )
    for least in SMALLEST_EXPONENTS:
        yield _Place(
            "underflow-to-zero",
            f"not finite where every exp in {name} underflows to 0 in float32: log(0) or 0/0, the maximum is "
            "not subtracted",
            (x < least).all(dim, keepdim=keep) & ~full,
        )


def _as_result(site: Site, x: Tensor, dim: int) -> tuple[Tensor, bool]:
    """Return the argument, and True if its dimension stays in the result."""
    result = tensors(site.call.result)[0]
    return x, result.dim() == x.dim()


def _prefixes(site: Site) -> Iterator[_Place]:
    """Yield places of underflow in a running sum of exponentials that subtracts the whole row's maximum."""
    if site.call.name != "logcumsumexp":
        return
    x, dim = site.given["self"], site.given["dim"]
    for least in SMALLEST_EXPONENTS:
        lost = (x - x.amax(dim, keepdim=True) < least).int()
        yield _Place(
            "underflow-to-zero",
            "not finite where every exp so far underflows to 0 in float32 (log(0)): the maximum subtracted "
            "is that of the whole row",
            lost.cummin(dim)[0].bool(),
        )


def _alone(site: Site) -> Iterator[_Place]:
    """Yield places where exp of one element overflows in an activation written by its formula."""
    x = site.given.get("self")
    if site.call.name not in ALONE or not isinstance(x, Tensor) or not x.is_floating_point():
        return
    for factor, spoken in ((1.0, "exp(x)"), (-1.0, "exp(-x)"), (2.0, "exp(2x)"), (-2.0, "exp(-2x)")):
        words = f"not finite where {spoken} overflows in float32 in {site.label}"
        yield _Place("overflow-to-nan", words, factor * x > LARGEST_EXPONENT)


def _quotients(site: Site) -> Iterator[_Place]:
    """Yield places where a divisor is zero without a bound or an eps, as in a mean of zero elements."""
    over = site.given.get("other") if site.call.name == "div" else site.given.get("self")
    if site.call.name not in ("div", "reciprocal", "rsqrt", "log") or not isinstance(over, Tensor):
        return
    for bare, guard in _bare(site, over):
        zero = bare == 0
        undefined = "log(0)" if site.call.name == "log" else "0/0 or x/0"
        words = f"not finite where {guard} is 0 in {site.label}: {undefined}, divided by zero"
        yield _Place("overflow-to-nan", words, zero.expand_as(tensors(site.call.result)[0]))


def _bare(site: Site, over: Tensor) -> Iterator[tuple[Tensor, str]]:
    """Yield the divisor itself, then the divisor without the operator that keeps it from zero."""
    yield over.detach(), "the divisor (count, sum)"
    maker = site.tape.maker(over)
    steps: list[Callable[[Tensor], Tensor]] = []
    while maker is not None and (maker.is_view or maker.name in ("_to_copy", "clone")):
        view = maker
        steps.append(lambda t, v=view: v.func(t, *list(v.given.values())[1:]))  # type: ignore[misc]
        maker = site.tape.maker(next(iter(maker.given.values())))
    if maker is None or maker.name not in ("clamp", "clamp_min", "maximum", "add", "where", "masked_fill"):
        return
    bare = maker.given.get("self")
    if isinstance(bare, Tensor) and bare.dtype is not torch.bool:
        for step in reversed(steps):
            bare = step(bare)
        yield bare, f"the divisor (count, sum) without its {maker.name.strip('_')}"


def _roots(site: Site) -> Iterator[_Place]:
    """Yield places of roots and logarithms of values that rounding may make zero or negative."""
    x = site.given.get("self")
    if site.call.name not in ("sqrt", "rsqrt", "log") or not isinstance(x, Tensor):
        return
    words = f"not finite where the argument of {site.label} is nearly zero: rounding makes it negative or 0"
    yield _Place("catastrophic-cancellation", words, x.abs() <= ALMOST_ZERO * x.abs().max())


def _empty_bags(site: Site) -> Iterator[_Place]:
    """Yield places of results of an embedding bag for bags without elements."""
    if "embedding_bag" in site.call.name and site.call.value is not None:
        words = f"not finite where a bag of {site.label} is empty: 0/0, divided by a count of zero"
        yield _Place("overflow-to-nan", words, (site.call.value == 0).all(-1, keepdim=True))


def _products(site: Site) -> Iterator[_Place]:
    """Yield places where a mask applied as a product multiplies 0 by minus infinity."""
    if site.call.name != "masked_fill" or site.given.get("value") != -torch.inf:
        return
    kept = ~site.given["mask"]
    words = "not finite where the mask is multiplied with -inf and not set: 0 * -inf is NaN for what is kept"
    yield _Place("overflow-to-nan", words, kept)


_REASONS: tuple[Callable[[Site], Iterator[_Place]], ...] = (
    _quotients, _empty_bags, _rows, _prefixes, _alone, _roots, _products,
)  # fmt: skip
