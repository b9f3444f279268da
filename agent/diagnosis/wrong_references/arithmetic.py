"""Faults of operators with one tensor: added numbers, factors, eps, roots, powers and bases."""

import math
from collections.abc import Callable, Iterator

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.activations import re_number
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
LARGEST_EPS = 0.5
"""Largest addend that counts as an eps under a root; elsewhere the limit is a hundredth of it."""


@rule("add", "sub", "rsub", "mul", "div")
def _with_number(site: Site) -> Iterator[Variant]:
    """Yield the faults of an operator with a number as operand."""
    number, name = site.given["other"], site.call.name
    if isinstance(number, Tensor) and number.dim() == 0 and not site.tape.maker(number):
        number = number.item() if site.tape.name(number) is None else number
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not gives_numbers(site):
        return
    if name == "add" and _is_eps(site, float(number)):
        yield from _eps(site, float(number))
        return
    yield from (_scaled if name in ("mul", "div") else _shifted)(site, float(number))
    verb = _VERBS[name]
    for value in dict.fromkeys((*site.facts.real, *(-r for r in site.facts.real))):
        if value not in (number, 0.0):
            words = f"with {value:g} {verb}; the reference has {number:g}"
            kind = "wrong-divisor" if name in ("mul", "div") else "wrong-slope"
            yield site.variant(kind, words, site.changed(other=value), 2, re_number(value))


_SUMS = frozenset({"sum", "cumsum", "index_add", "scatter_add"})
_MEANS = frozenset({"mean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d"})
_VERBS = {
    "add": "added",
    "sub": "subtracted",
    "mul": "multiplied with",
    "div": "divided by",
    "rsub": "as minuend",
}


def _scaled(site: Site, number: float) -> Iterator[Variant]:
    """Yield variants with a factor or divisor left out, applied twice, inverted, or replaced by its root."""
    verb, other = _VERBS[site.call.name], _VERBS["div" if site.call.name == "mul" else "mul"]
    tokens = r"\*|/"
    words, kind = f"with {number:g} not {verb}: the scale (factor) is missing", "scale-missing"
    if number == int(number) and number > 1:
        if site.call.name == "div" and roles.made_by(site.tape, site.given["self"], _SUMS):
            kind, words = "sum-for-mean", f"with {number:g}, a count, not {verb}: the sum for the mean"
        elif site.call.name == "mul" and roles.made_by(site.tape, site.given["self"], _MEANS):
            kind, words = "mean-for-sum", f"with {number:g}, a count, not {verb}: the mean for the sum"
    yield site.variant(kind, words, _self, 0, tokens)
    words = f"with {number:g} {verb} twice: the scale is applied twice"
    yield site.variant("scale-doubled", words, site.changed(other=number * number), 0, tokens)
    inverse = site.changed(other=1 / number if number else 0.0)
    yield site.variant("wrong-divisor", f"{other} {number:g}; the reference is {verb} it", inverse, 1, tokens)
    for power, spoken in ((0.5, "the root of"), (-0.5, "one over the root of")) if number > 0 else ():
        rooted = site.changed(other=number**power)
        yield site.variant("wrong-divisor", f"{verb} {spoken} {number:g}", rooted, 2, "sqrt")


def _shifted(site: Site, number: float) -> Iterator[Variant]:
    """Yield variants with a summand left out, added twice, or with the opposite sign."""
    verb, tokens = _VERBS[site.call.name], r"\+|-"
    if site.call.name == "rsub":
        words = f"with x - {number:g} for {number:g} - x"
        yield site.variant("sign-error", words, lambda given: given["self"] - number, 0, tokens)
        return
    counted = isinstance(site.given["self"], Tensor) and not site.given["self"].is_floating_point()
    kind, more = ("index-off-by-one", ": an index is off") if counted else ("operator-missing", "")
    # The rules of `states` name a state that is not updated.
    rank = 2 if site.call.written and site.tape.name(site.given["self"]) is not None else 0
    yield site.variant(kind, f"with {number:g} not {verb}{more}", _self, rank, tokens)
    twice, opposite = site.changed(other=2 * number), site.changed(other=-number)
    yield site.variant("operator-doubled", f"with {number:g} {verb} twice", twice, 1, tokens)
    yield site.variant("sign-error", f"with {-number:g} {verb} for {number:g}", opposite, 0, tokens)


def _self(given: Arguments) -> Tensor:
    return torch.as_tensor(given["self"]).clone()


def gives_numbers(site: Site) -> bool:
    result = site.call.result
    return isinstance(result, Tensor) and result.dtype is not torch.bool


def _is_eps(site: Site, number: float) -> bool:
    rooted = any(user.name in ("sqrt", "rsqrt") for user in site.tape.users(site.call))
    return 0 < number <= (LARGEST_EPS if rooted else LARGEST_EPS / 100)


def _eps(site: Site, eps: float) -> Iterator[Variant]:
    tokens = r"eps|sqrt|1e-"
    yield site.variant("eps-omitted", f"with eps = {eps:g} omitted", _self, 0, tokens)
    yield site.variant("eps-twice", f"with eps = {eps:g} added twice", site.changed(other=2 * eps), 0, tokens)
    words = f"with max(..., eps) for the sum with eps = {eps:g}"
    yield site.variant("eps-inside-max", words, lambda given: given["self"].clamp_min(eps), 0, tokens)
    for value in dict.fromkeys((*site.facts.real, 1e-5, 1e-6, 1e-8, 1e-12)):
        if 0 < value < 1 and value != eps:
            words = f"with eps = {value:g}; the reference has {eps:g}"
            yield site.variant("wrong-eps", words, site.changed(other=value), 1, re_number(value))


@rule("sqrt", "rsqrt")
def _roots(site: Site) -> Iterator[Variant]:
    """Yield variants without the root, or with an eps added outside the root, twice, or as a maximum."""
    inverse = site.call.name == "rsqrt"
    maker = site.tape.maker(site.given["self"])
    turn: Callable[[Tensor], Tensor] = torch.reciprocal if inverse else torch.clone
    words = "without the square root" + (": divided by the mean square (variance) itself" if inverse else "")
    yield site.variant("root-omitted", words, lambda given: turn(given["self"]), 1, "sqrt")
    if inverse:
        words = "multiplied with the root for divided by it"
        yield site.variant("wrong-divisor", words, lambda given: given["self"].sqrt(), 1, "sqrt")
    added = maker.given.get("other") if maker is not None and maker.name == "add" else None
    if isinstance(added, (int, float)) and 0 < added <= LARGEST_EPS:
        eps, tokens = float(added), "sqrt|eps|1e-"
        words = f"with eps = {eps:g} added outside the root"
        outside = lambda given: turn((given["self"] - eps).clamp_min(0).sqrt() + eps)  # noqa: E731
        yield site.variant("eps-outside-root", words, outside, 0, tokens)
        twice = lambda given: turn(given["self"].sqrt() + eps)  # noqa: E731
        yield site.variant(
            "eps-twice", f"with eps = {eps:g} added inside and outside the root: twice", twice, 0, tokens
        )
        bounded = lambda given: turn((given["self"] - eps).clamp_min(0).sqrt().clamp_min(eps))  # noqa: E731
        yield site.variant("eps-inside-max", f"with max(root, eps = {eps:g})", bounded, 1, tokens)


@rule("exp", "exp2", "log", "log2", "log10", "log1p", "expm1")
def _bases(site: Site) -> Iterator[Variant]:
    name = site.call.name
    forms: dict[str, tuple[tuple[str, str, Callable[[Tensor], Tensor]], ...]] = {
        "exp": (
            ("base-2-for-e", "exp2", torch.exp2),
            ("base-10-for-e", "exp10", lambda x: (x * math.log(10)).exp()),
            ("operator-missing", "exp(x) - 1", torch.expm1),
            ("sign-error", "exp(-x)", lambda x: (-x).exp()),
        ),
        "log": (
            ("base-2-for-e", "log2", torch.log2),
            ("base-10-for-e", "log10", torch.log10),
            ("wrong-activation", "log1p", torch.log1p),
        ),
        "log2": (("base-2-for-e", "the natural logarithm", torch.log),),
        "log10": (("base-10-for-e", "the natural logarithm", torch.log),),
        "exp2": (("base-2-for-e", "exp", torch.exp),),
        "log1p": (("wrong-activation", "log", torch.log),),
        "expm1": (("wrong-activation", "exp", torch.exp),),
    }  # fmt: skip
    for kind, other, function in forms[name]:
        rewrite = lambda given, f=function: f(given["self"])  # noqa: E731
        yield site.variant(kind, f"with {other} for {name}", rewrite, 0, other)


@rule("pow")
def _of_numbers(site: Site) -> Iterator[Variant]:
    """Yield variants with another base for the power of a number by a tensor, such as 10000 for angles."""
    base = site.given["self"]
    if isinstance(base, (int, float)) and not isinstance(base, bool):
        for value in dict.fromkeys((*site.facts.real, 10000.0, 2.0, math.e, 10.0)):
            if value > 0 and value != base:
                words = f"with the base {value:g} in {site.label}; the reference has the constant {base:g}"
                rewrite = lambda given, v=value: torch.pow(v, given["exponent"])  # noqa: E731
                yield site.variant("wrong-coefficient", words, rewrite, 2, re_number(value))


@rule("pow", "square")
def _powers(site: Site) -> Iterator[Variant]:
    base, exponent = site.given["self"], site.given.get("exponent", 2)
    if not isinstance(base, Tensor) or not isinstance(exponent, (int, float)):
        return
    if exponent == 0.5:
        yield site.variant("root-omitted", "without the square root", _self, 0, "sqrt|pow")
        return
    yield site.variant(
        "square-omitted",
        f"with the absolute value for the power {exponent:g}: not squared",
        lambda given: given["self"].abs(),
        1,
        "abs|\\*",
    )
    yield site.variant("square-omitted", f"with the power {exponent:g} (square) omitted", _self, 1, "\\*")
    for other in (2, 3, 4, 0.5, -exponent):
        if other != exponent:
            words = f"with the power {other:g}; the reference has {exponent:g}"
            yield site.variant(
                "wrong-activation",
                words,
                lambda given, p=other: given["self"].pow(p),  # type: ignore[misc]
                2,
                "pow|\\*",
            )
