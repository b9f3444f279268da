"""Faults of elementwise functions: the wrong function, wrong parameters or a wrong range."""

import math
import re
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments
from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]

FUNCTIONS: dict[str, Function] = {
    "relu": torch.relu,
    "GELU (erf)": lambda x: F.gelu(x),
    "GELU by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "GELU by sigmoid, x * sigmoid(1.702 x)": lambda x: x * torch.sigmoid(1.702 * x),
    "SiLU (swish), x * sigmoid(x)": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "leaky relu with slope 0.01": lambda x: F.leaky_relu(x, 0.01),
    "leaky relu with slope 0.1": lambda x: F.leaky_relu(x, 0.1),
    "leaky relu with slope 0.2": lambda x: F.leaky_relu(x, 0.2),
    "ELU": F.elu,
    "SELU": F.selu,
    "softplus": F.softplus,
    "softsign, x / (1 + |x|)": F.softsign,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "exp": torch.exp,
    "abs": torch.abs,
    "the square": torch.square,
    "log-sigmoid": F.logsigmoid,
    "tanh(softplus(x))": lambda x: torch.tanh(F.softplus(x)),
    "min(x, 0)": lambda x: x.clamp_max(0.0),
}
_NAMES = {
    "relu": "relu", "gelu": "GELU", "silu": "SiLU", "sigmoid": "sigmoid", "tanh": "tanh", "elu": "ELU",
    "leaky_relu": "leaky relu", "softplus": "softplus", "mish": "mish", "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid", "hardtanh": "hardtanh", "log_sigmoid_forward": "log-sigmoid",
    "clamp_min": "the clamp", "erf": "erf", "softshrink": "softshrink", "hardshrink": "hardshrink",
    "threshold": "threshold",
}  # fmt: skip
ACTIVATIONS = frozenset(_NAMES)
_LOG2 = math.log(2.0)


def spoken(site: Site) -> str:
    return _NAMES.get(site.call.name, site.label)


@rule(*(ACTIVATIONS - {"clamp_min"}))
def _others(site: Site) -> Iterator[Variant]:
    own = spoken(site)
    for name, function in FUNCTIONS.items():
        if name.lower().startswith(own.lower()) and own != "GELU":
            continue
        rewrite = site.first(lambda given, f=function: f(given["self"]))  # type: ignore[misc]
        tokens = name.split()[0].lower() + "|exp|tanh|erf|max|min"
        yield site.variant("wrong-activation", f"with {name} for {own}", rewrite, 2, tokens)


@rule("gelu")
def _gelu(site: Site) -> Iterator[Variant]:
    by_tanh = site.given.get("approximate") == "tanh"
    kind = "erf-for-gelu-tanh" if by_tanh else "gelu-tanh-for-erf"
    words = (
        "with GELU by erf for the approximation by tanh"
        if by_tanh
        else "with GELU by tanh for the one by erf"
    )
    other = site.changed(approximate="none" if by_tanh else "tanh")
    yield site.variant(kind, words, other, 0, "tanh|erf")
    for words, function in (
        ("with GELU's erf of x, not of x / sqrt(2)", lambda x: 0.5 * x * (1 + torch.erf(x))),
        ("with GELU without its factor 0.5", lambda x: 2 * F.gelu(x)),
        (
            "with GELU without its factor x: the normal distribution function",
            lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        ),
        (
            "with GELU's tanh without the factor sqrt(2 / pi)",
            lambda x: 0.5 * x * (1 + torch.tanh(x + 0.044715 * x**3)),
        ),
        (
            "with GELU's tanh without the cubic term",
            lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x)),
        ),
    ):
        yield site.variant(
            "wrong-activation",
            words,
            lambda given, f=function: f(given["self"]),  # type: ignore[misc]
            1,
            "erf|tanh",
        )


@rule("hardswish", "hardsigmoid")
def _hard(site: Site) -> Iterator[Variant]:
    swish = site.call.name == "hardswish"
    tokens = r"3\.?0?f?|6"
    forms: tuple[tuple[str, str, Function], ...] = (
        ("hardswish-unclamped", "without its clamp: (x + 3) / 6 unbounded", lambda x: (x + 3) / 6),
        ("hardswish-unclamped", "without the upper bound of relu6", lambda x: (x + 3).clamp_min(0) / 6),
        ("hardswish-unclamped", "without the lower bound of relu6", lambda x: (x + 3).clamp_max(6) / 6),
        ("wrong-divisor", "without the division by 6", lambda x: (x + 3).clamp(0, 6)),
        ("wrong-slope", "without the offset of 3", lambda x: x.clamp(0, 6) / 6),
        ("wrong-slope", "divided by 3 for 6", lambda x: (x + 3).clamp(0, 6) / 3),
        ("clamp-bounds", "clamped to 0..1 before the division", lambda x: (x + 3).clamp(0, 1) / 6),
        ("wrong-slope", "with hardsigmoid x / 5 + 0.5", lambda x: (x / 5 + 0.5).clamp(0, 1)),
        ("clamp-bounds", "with 3 for 6 as the upper bound", lambda x: (x + 3).clamp(0, 3) / 6),
    )
    for kind, words, gate in forms:

        def run(given: Arguments, gate: Function = gate) -> Tensor:
            x = given["self"]
            return x * gate(x) if swish else gate(x)

        if kind == "hardswish-unclamped" and not swish:
            kind = "clamp-missing"
        yield site.variant(kind, f"with {spoken(site)} {words}", run, 0, tokens)


@rule("leaky_relu", "elu", "softplus", "hardtanh", "clamp", "clamp_min", "clamp_max", "threshold")
def _parameters(site: Site) -> Iterator[Variant]:
    """Yield variants with a slope, alpha, beta or bound replaced by a source literal or a usual value."""
    given = {k: v for k, v in site.given.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    for name, value in given.items():
        words = _PARAMETERS.get((site.call.name, name)) or name.replace("_", " ")
        kind = (
            "clamp-bounds"
            if site.call.name in ("hardtanh", "clamp", "clamp_min", "clamp_max")
            else "wrong-slope"
        )
        usual = (0.0, 0.01, 0.1, 0.2, 0.3, 1.0, -1.0, 6.0, -value, 1.0 / value if value else 0.0)
        for number in dict.fromkeys((*site.facts.real, *usual, *(-r for r in site.facts.real))):
            # An ELU with alpha zero is a ReLU, which is another activation.
            relu = site.call.name == "elu" and number == 0.0
            if number != value and name not in ("scale", "input_scale") and not relu:
                stated = f"with the {words} {number:g}; the reference has {value:g}"
                tokens = rf"{re_number(number)}|slope|alpha|beta|\?"
                yield site.variant(
                    kind,
                    f"{stated} in {spoken(site)}",
                    site.changed(**{name: number}),
                    1 if number in site.facts.real else 2,
                    tokens,
                )
    if site.call.name.startswith(("clamp", "hardtanh")):
        bounds = [name for name in ("min", "max", "min_val", "max_val") if given.get(name) is not None]
        for name in bounds if len(bounds) > 1 else []:
            low = name.startswith("min")
            words = f"without the {'lower' if low else 'upper'} bound {given[name]:g} of {site.label}"
            unbounded = -math.inf if low else math.inf
            yield site.variant("clamp-missing", words, site.changed(**{name: unbounded}), 0, "max|min|clamp")
        words = f"without {site.label}: no clamp"
        yield site.variant("clamp-missing", words, lambda given: given["self"].clone(), 0, "max|min|clamp")


@rule("clamp", "clamp_min", "clamp_max")
def _one_sided(site: Site) -> Iterator[Variant]:
    """Yield variants with the single bound on the wrong side, or a second bound on the other side."""
    bounds = {name: site.given.get(name) for name in ("min", "max")}
    given = [(name, value) for name, value in bounds.items() if isinstance(value, (int, float))]
    if len(given) != 1:
        return
    name, value = given[0]
    upper = name == "max"
    words = (
        f"with min and max exchanged in {site.label}: {value:g} bounds from {'below' if upper else 'above'}"
    )
    turned = lambda g: g["self"].clamp_min(value) if upper else g["self"].clamp_max(value)  # noqa: E731
    yield site.variant("clamp-bounds", words, turned, 1, "max|min|clamp")
    for other in dict.fromkeys((-value, 0.0, -1.0 if upper else 1.0)):
        if other != value and (other < value) == upper:
            words = f"with a bound of {other:g} on the other side of {site.label} as well"
            both = lambda g, o=other: g["self"].clamp(min(o, value), max(o, value))  # noqa: E731
            yield site.variant("clamp-bounds", words, both, 1, "max|min|clamp")


def re_number(value: float) -> str:
    """Return a regular expression for the number as a source may spell it."""
    spelled = {
        f"{value:g}",
        re.sub(r"e([-+])0+", r"e\1", f"{value:g}"),
        repr(value),
        f"{value:f}".rstrip("0"),
    }
    return "|".join(rf"(?<![\w.]){re.escape(form)}0*f?\b" for form in sorted(spelled))


_PARAMETERS = {
    ("leaky_relu", "negative_slope"): "negative slope",
    ("hardtanh", "min_val"): "lower bound",
    ("hardtanh", "max_val"): "upper bound",
    ("clamp", "min"): "lower bound",
    ("clamp", "max"): "upper bound",
    ("clamp_min", "min"): "lower bound",
    ("clamp_max", "max"): "upper bound",
    ("softplus", "threshold"): "threshold",
}


@rule("clamp_min")
def _bounded_length(site: Site) -> Iterator[Variant]:
    """Yield faults of a lower bound that keeps a divisor from zero, such as adding it instead."""
    value = site.given.get("min")
    if isinstance(value, (int, float)) and value > 0:
        words = f"with {value:g} (eps) added where the reference bounds from below by {value:g}"
        yield site.variant("clamp-missing", words, lambda given: given["self"] + value, 0, "max|eps|sqrt")
        inside = lambda given: (given["self"].square() + value).sqrt()  # noqa: E731
        words = f"with {value:g} (eps) added inside the root for a lower bound"
        yield site.variant("eps-inside-max", words, inside, 1, "max|eps|sqrt")
        squared = lambda given: given["self"].clamp_min(math.sqrt(value))  # noqa: E731
        words = f"with max(sum, {value:g}) taken before the root: the bound (eps) is its root"
        yield site.variant("clamp-bounds", words, squared, 1, "max|eps|sqrt")


@rule("elu")
def _without_one(site: Site) -> Iterator[Variant]:
    alpha = site.given["alpha"] * site.given["scale"]

    def run(given: Arguments) -> Tensor:
        y = torch.as_tensor(site.changed()(given))
        return torch.where(given["self"] > 0, y, y + alpha)

    yield site.variant("operator-missing", "with exp(x) for exp(x) - 1 in ELU", run, 1, "exp")


@rule("softplus", "log_sigmoid_forward", "tanh", "mish", "sigmoid", "silu", "elu")
def _bases_and_overflows(site: Site) -> Iterator[Variant]:
    overflowing = "whose exp overflows in float32"
    for kind, words, function in _NUMERIC.get(site.call.name, ()):
        words = f"with {spoken(site)} {words}".replace("OVERFLOW", overflowing)
        if (
            kind == "sign-error"
            and site.call.name == "sigmoid"
            and roles.has_complement(site.tape, site.call)
        ):
            # In a mix weighted by s and 1 - s, the sigmoid of -x is the complement.
            kind, words = (
                "weights-swapped",
                f"{words}, its complement: the weights of the mix (1 - s, s) exchanged",
            )
        beta = site.given.get("beta", 1)
        rewrite = site.first(lambda given, f=function, b=beta: f(b * given["self"]) / b)  # type: ignore[misc]
        yield site.variant(kind, words, rewrite, 1, "exp|log")


def _softplus32(x: Tensor) -> Tensor:
    return (1 + x.float().exp()).log().double()


def _tanh32(x: Tensor) -> Tensor:
    power = (2 * x.float()).exp()
    return ((power - 1) / (power + 1)).double()


_NUMERIC: dict[str, tuple[tuple[str, str, Function], ...]] = {
    "softplus": (
        ("overflow-to-nan", "as log(1 + exp(x)), OVERFLOW", _softplus32),
        ("base-2-for-e", "by exp2 and log2", lambda x: (1 + torch.exp2(x)).log2()),
        ("base-2-for-e", "by exp2", lambda x: (1 + torch.exp2(x)).log()),
        ("base-2-for-e", "by log2", lambda x: F.softplus(x) / _LOG2),
    ),
    "log_sigmoid_forward": (
        ("overflow-to-nan", "as -log(1 + exp(-x)), OVERFLOW", lambda x: -_softplus32(-x)),
        ("sign-error", "negated", lambda x: F.softplus(-x)),
    ),
    "tanh": (
        ("overflow-to-nan", "as (exp(2x) - 1) / (exp(2x) + 1), OVERFLOW", _tanh32),
        ("wrong-slope", "of x / 2", lambda x: torch.tanh(x / 2)),
    ),
    "mish": (("overflow-to-nan", "with log(1 + exp(x)), OVERFLOW", lambda x: x * _tanh32(_softplus32(x))),),
    "sigmoid": (
        ("base-2-for-e", "by powers of 2 (exp2)", lambda x: torch.sigmoid(x * _LOG2)),
        ("sign-error", "of -x", lambda x: torch.sigmoid(-x)),
        ("overflow-to-nan", "as exp(x) / (1 + exp(x)), OVERFLOW",
         lambda x: (x.float().exp() / (1 + x.float().exp())).double()),
    ),
    "silu": (
        ("base-2-for-e", "by powers of 2 (exp2)", lambda x: x * torch.sigmoid(x * _LOG2)),
        ("sign-error", "with the sigmoid of -x", lambda x: x * torch.sigmoid(-x)),
    ),
    "elu": (
        ("base-2-for-e", "with exp2", lambda x: torch.where(x > 0, x, torch.exp2(x) - 1)),
    ),
}  # fmt: skip
