"""How the parameters of a reference are perturbed, and with what strength.

Full strength is `NOISE` and `VARIANCE_DECADES`. Where so many normalisations follow each other that the
float32 reference then misses its own truth, everything would pass: there the strength is halved until it
does not, from the seed alone and never to nothing.
"""

from collections.abc import Collection

import torch

from agent.harness.truth import discrete
from agent.harness.truth.usage import IntegerUse

NOISE = 0.3
"""Perturbation of every parameter relative to its own scale: an ignored affine shows, training-like
values stay; the size is the protocol page's `order 0.3`."""
VARIANCE_DECADES = 3
"""Running variances spread downwards over so many powers of ten, so that an ignored eps shows."""
MOST_WIDENED, WIDENED = 4, 8
"""How many parameters get other signs and sizes, and how much larger some of their elements are."""
DEEP = 16
"""Normalisations by running variances from which on the strength is a question: up to there it is full."""
LEAST = 1 / 16
"""Strength that is never gone below: parameters still differ by 2 % of their scale."""


def is_deep(model: torch.nn.Module) -> bool:
    """Whether so many layers normalise by running variances that full strength may be too much."""
    return sum(name.endswith("running_var") for name, _ in model.named_buffers()) >= DEEP


def masks(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the saved buffers of two values, such as the causal mask of minGPT, by name."""
    saved = model.state_dict()
    return {
        name: buffer
        for name, buffer in model.named_buffers()
        if name in saved and buffer.dim() > 0 and buffer.numel() > 0 and discrete.is_mask(buffer)
    }


def redraw_mask(model: torch.nn.Module, seed: int) -> bool:
    """Draw the mask of a module anew, in place; return False where there is none to draw.

    A mask along diagonals, as a causal one is, stays: it follows from the size. So do several masks, which
    may depend on each other.
    """
    found = list(masks(model).values())
    if len(found) != 1 or _is_diagonal(found[0]):
        return False
    generator = torch.Generator().manual_seed(seed)
    new = discrete.varied(found[0], "redrawn", IntegerUse(), generator)
    if new is not None:
        with torch.no_grad():
            found[0].copy_(new)
    return new is not None


def _is_diagonal(mask: torch.Tensor) -> bool:
    """Return True where each diagonal of the last two dimensions has one value, and not all the same."""
    if mask.dim() < 2 or min(mask.shape[-2:]) < 2 or bool((mask == mask.reshape(-1)[0]).all()):
        return False
    return torch.equal(mask[..., 1:, 1:], mask[..., :-1, :-1])


def perturb(state: dict[str, torch.Tensor], seed: int, strength: float, masks: Collection[str] = ()) -> None:
    """Changes every floating-point tensor in place, besides `masks`: with noise they would be none."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in state.items():
        if name not in masks:
            _perturb(name, tensor, generator, strength)


def widen(model: torch.nn.Module, constructed: dict[str, torch.Tensor], seed: int) -> None:
    """Gives a quarter of the elements of up to `MOST_WIDENED` parameters the other sign, and makes an eighth
    `WIDENED` times as large: of those all elements of which have one sign at first, as factors do.

    Trained factors may be negative and large, and no perturbation by a share of their size makes them so.
    """
    generator = torch.Generator().manual_seed(seed)
    known = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.is_floating_point() and name in constructed and _has_one_sign(constructed[name])
    ]
    order = torch.randperm(len(known), generator=generator).tolist()
    for number in order[:MOST_WIDENED]:
        flat = known[number].detach().view(-1)
        places = torch.randperm(flat.numel(), generator=generator)
        flat[places[: max(flat.numel() // 4, 1)]] *= -1
        flat[places[-max(flat.numel() // 8, 1) :]] *= WIDENED


def _has_one_sign(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and (bool((tensor > 0).all()) or bool((tensor < 0).all()))


def _perturb(name: str, tensor: torch.Tensor, generator: torch.Generator, strength: float) -> None:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    scale = float(tensor.double().pow(2).mean().sqrt()) or 1.0
    with torch.no_grad():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.add_((strength * NOISE * scale * noise).to(tensor.dtype))
        if name.endswith("running_var"):
            decades = strength * VARIANCE_DECADES * torch.rand(tensor.shape, generator=generator)
            tensor.abs_().add_(0.1).mul_((10.0**-decades).to(tensor.dtype))
