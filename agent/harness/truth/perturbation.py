"""Perturbation of a reference's parameters, and its strength.

Full strength (1) is `NOISE` and `VARIANCE_DECADES`. In a model with many normalisations in sequence, the
float32 reference can then be so inaccurate that every answer would be within tolerance. The strength is then
halved until float32 is accurate enough. It depends on the seed alone and never reaches zero.
"""

from collections.abc import Collection

import torch

from agent.harness.truth import discrete
from agent.harness.truth.usage import IntegerUse

NOISE = 0.3
"""Standard deviation of a parameter's noise, relative to the parameter's root mean square.

It is large enough to show an ignored affine step, and keeps values similar to trained ones. It is the 0.3 of
docs/integrity-protocol.md.
"""
VARIANCE_DECADES = 3
"""Number of powers of ten by which running variances are reduced at most, so that an ignored eps shows."""
MOST_WIDENED, WIDENED = 4, 8
"""Maximum number of parameters with changed signs and magnitudes, and the factor of enlarged elements."""
DEEP = 16
"""Minimum number of normalisations by running variances for which full strength may be too much."""
MANY = 1 << 24
"""Number of elements of a parameter above which a GPU draws its noise."""
LEAST = 1 / 16
"""Minimum strength, at which parameters still differ by 2 % of their scale."""


def is_deep(model: torch.nn.Module) -> bool:
    """Return True if at least DEEP layers normalise by running variances."""
    return sum(name.endswith("running_var") for name, _ in model.named_buffers()) >= DEEP


def masks(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers in the state_dict that hold two values, such as minGPT's causal mask, by name."""
    saved = model.state_dict()
    return {
        name: buffer
        for name, buffer in model.named_buffers()
        if name in saved and buffer.dim() > 0 and buffer.numel() > 0 and discrete.is_mask(buffer)
    }


def redraw_mask(model: torch.nn.Module, seed: int) -> bool:
    """Redraw the mask of a module in place. Return False if nothing was redrawn.

    A mask along diagonals, such as a causal one, stays because it follows from the size. Several masks also
    stay, since they may depend on each other.
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
    """Return True if each diagonal of the last two dimensions is constant, but the whole mask is not."""
    if mask.dim() < 2 or min(mask.shape[-2:]) < 2 or bool((mask == mask.reshape(-1)[0]).all()):
        return False
    return torch.equal(mask[..., 1:, 1:], mask[..., :-1, :-1])


def perturb(state: dict[str, torch.Tensor], seed: int, strength: float, masks: Collection[str] = ()) -> None:
    """Add noise to every floating-point tensor in place, except `masks`, which noise would destroy."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in state.items():
        if name not in masks:
            _perturb(name, tensor, generator, strength)


def widen(model: torch.nn.Module, constructed: dict[str, torch.Tensor], seed: int) -> None:
    """Change signs and magnitudes of some elements of up to `MOST_WIDENED` parameters.

    A quarter of the elements change sign, and an eighth become `WIDENED` times as large. Only parameters
    qualify whose elements all have one sign when constructed, such as scale factors. Trained factors may be
    negative and large, which `perturb` does not produce.
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
        places = torch.randperm(flat.numel(), generator=generator).to(flat.device)
        flat[places[: max(flat.numel() // 4, 1)]] *= -1
        flat[places[-max(flat.numel() // 8, 1) :]] *= WIDENED


def _has_one_sign(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and (bool((tensor > 0).all()) or bool((tensor < 0).all()))


def _perturb(name: str, tensor: torch.Tensor, generator: torch.Generator, strength: float) -> None:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    norm = torch.linalg.vector_norm(tensor.detach(), dtype=torch.float64)
    scale = float(norm) / tensor.numel() ** 0.5 or 1.0
    with torch.no_grad():
        if tensor.is_cuda and tensor.numel() > MANY:
            _add_noise_on_gpu(tensor, generator, strength * NOISE * scale)
        else:
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
            tensor.add_((strength * NOISE * scale * noise).to(tensor))
        if name.endswith("running_var"):
            decades = strength * VARIANCE_DECADES * torch.rand(tensor.shape, generator=generator)
            tensor.abs_().add_(0.1).mul_((10.0**-decades).to(tensor))


def _add_noise_on_gpu(tensor: torch.Tensor, generator: torch.Generator, size: float) -> None:
    """Add noise that the GPU draws, some rows of the tensor at a time, from a seed of `generator`."""
    seed = int(torch.randint(1 << 62, (), generator=generator))
    own = torch.Generator(tensor.device).manual_seed(seed)
    rows = max(MANY // max(tensor[0].numel(), 1), 1) if tensor.dim() else 1
    for part in torch.split(tensor, rows) if tensor.dim() else (tensor,):
        part.add_(torch.randn(part.shape, generator=own, device=tensor.device).mul_(size).to(tensor.dtype))
