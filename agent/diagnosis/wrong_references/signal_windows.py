"""Faults of signal windows (Hann, Hamming, ...): divisor, coefficients and root."""

import math
from collections.abc import Callable, Iterator

import torch

from agent.diagnosis.wrong_references.rules import Site, Variant, rule

Tensor = torch.Tensor
Form = Callable[[Tensor], Tensor]
"""Function of the fraction of the period, 0 to 1, that returns the window."""
FORMS: dict[str, Form] = {
    "hann": lambda t: 0.5 - 0.5 * torch.cos(2 * math.pi * t),
    "hamming": lambda t: 0.54 - 0.46 * torch.cos(2 * math.pi * t),
    "blackman": lambda t: 0.42 - 0.5 * torch.cos(2 * math.pi * t) + 0.08 * torch.cos(4 * math.pi * t),
    "bartlett": lambda t: 1 - (2 * t - 1).abs(),
    "sine": lambda t: torch.sin(math.pi * t),
    "rectangular": torch.ones_like,
}


@rule(*(f"{name}_window" for name in ("hann", "hamming", "blackman", "bartlett")))
def _windows(site: Site) -> Iterator[Variant]:
    own, size = site.call.name.removesuffix("_window"), site.given["window_length"]
    value, periodic = site.call.value, site.given.get("periodic", True)
    if value is None or size < 3:
        return

    def made(form: Form, divisor: int, first: float = 0.0) -> Callable[[object], Tensor]:
        place = torch.arange(size, dtype=torch.float64, device=value.device) + first
        return lambda given: form(place / divisor).to(value.dtype)

    divisor, other = (size, size - 1) if periodic else (size - 1, size)
    words = f"with the {own} window's period of {other} for {divisor}: "
    words += "symmetric, divided by n - 1" if periodic else "periodic, divided by n"
    yield site.variant("wrong-divisor", words, made(FORMS[own], other), 0, "cos")
    words = f"with the {own} window's middles of steps, k + 0.5 for k"
    yield site.variant("wrong-coordinate", words, made(FORMS[own], divisor, 0.5), 1, "cos")
    yield site.variant(
        "root-omitted", f"with the square of the {own} window", site.around(torch.square), 2, "cos"
    )
    rooted = site.around(lambda t: t.clamp_min(0).sqrt())
    yield site.variant("square-omitted", f"with the root of the {own} window", rooted, 2, "cos")
    for name, form in FORMS.items():
        if name != own:
            kind = "operator-missing" if name == "rectangular" else "wrong-coefficient"
            words = f"with a {name} window for the {own} window"
            yield site.variant(kind, words, made(form, divisor), 1, "cos")
