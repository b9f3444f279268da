"""`torch.nn.functional.batch_norm` with running statistics: operator `kernelwright::batch_norm_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.group_norm import activation
from agent.kernels.group_norm.layout import format_of, laid_out, layout_of
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "batch_norm"
ENVELOPE = (
    "evaluation: running statistics, which get no gradient; training is torch's",
    "rank 2 and more; contiguous, or channels-last of rank 4 and 5; copied where it is neither",
    "statistics, weight and bias in the input's dtype or float32, all in one; weight and bias optional",
    "with silu, gelu (erf), relu, tanh or hardswish, and with a residual before it",
)
FORWARD = "16qd2q"
BACKWARD = "19qd2q"


@replayed
def batch_norm(
    x: torch.Tensor, running_mean: torch.Tensor, running_var: torch.Tensor,
    weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5, *,
    act: str = "none", residual: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return act(F.batch_norm(x, running_mean, running_var, weight, bias, eps=eps) + residual) in one pass.

    act is none, silu, gelu, relu, tanh or hardswish. residual has x's shape and dtype. Falls back to torch
    and records why if the kernel does not support the call. Raises ValueError for another act, and whatever
    torch raises.
    """
    if act not in activation.NUMBERS:
        raise ValueError(f"act={act!r}: there are {', '.join(activation.NUMBERS)}")
    parameters = (running_mean, running_var, weight, bias)
    if not _is_right(x, parameters, residual) or not _takes(x, parameters, residual):
        y = F.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
        return activation.value(y if residual is None else y + residual, act)
    return _OPERATOR(x, residual, *parameters, eps, act)


def _is_right(
    x: torch.Tensor, parameters: Sequence[torch.Tensor | None], residual: torch.Tensor | None
) -> bool:
    """Return True if torch accepts these shapes without broadcasting and the result is not empty."""
    if x.dim() < 2 or x.numel() == 0:
        return False
    of_channels = x.shape[1:2]
    for one in parameters:
        if one is not None and one.shape != of_channels:
            return False
    return residual is None or residual.shape == x.shape


def _takes(x: torch.Tensor, parameters: Sequence[torch.Tensor | None], residual: torch.Tensor | None) -> bool:
    if routing.is_disabled():
        return False
    reason = None
    if residual is not None and (residual.dtype != x.dtype or residual.device != x.device):
        reason = "the residual has another dtype or device than the input"
    elif any(one is not None and one.requires_grad for one in parameters[:2]):
        reason = "the running statistics want a gradient"
    if reason is not None:
        routing.fall_back(KERNEL, reason)
    return reason is None and routing.takes(KERNEL, x, *parameters)


def _launch(
    x: torch.Tensor, residual: torch.Tensor | None, mean: torch.Tensor, variance: torch.Tensor,
    weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, act: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    y = torch.empty_like(x, memory_format=format_of(x))
    _launched(None, (x, residual), (mean, variance, weight, bias), (y, None), eps, act)
    return (y,)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, residual: torch.Tensor | None, mean: torch.Tensor,
    variance: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, act: str,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    made = _backward_shapes(grad, x, residual, mean, variance, weight, bias, eps, act, wanted)
    results = [one if want else None for one, want in zip(made, wanted, strict=True)]
    _launched(grad, (x, residual), (mean, variance, weight, bias), results, eps, act)
    return made


def _launched(
    grad: torch.Tensor | None, inputs: Sequence[torch.Tensor | None],
    parameters: Sequence[torch.Tensor | None], results: Sequence[torch.Tensor | None], eps: float, act: str,
) -> None:  # fmt: skip
    """Launch the forward or the backward.

    `inputs` are x and the residual. `results` are the value and None, or the gradients of x, of the
    activation's input, of weight and of bias.
    """
    x = inputs[0]
    assert x is not None
    layout = layout_of(x)
    laid = [None if one is None else laid_out(one, layout) for one in (grad, *inputs)]
    dense = [None if one is None else one.contiguous() for one in parameters]
    assert dense[0] is not None
    n, channels = x.shape[:2]
    device = x.device.index
    values = (
        n, channels, x.numel() // (n * channels), routing.DTYPES[x.dtype], routing.DTYPES[dense[0].dtype],
        layout, activation.NUMBERS[act], eps, stream(x), device,
    )  # fmt: skip
    library = routing.library(KERNEL, device)
    pointers = (*map(address, laid), *map(address, dense), *map(address, results))
    if all(one is None for one in results[2:]):
        library.launch("forward", FORWARD, *pointers[:9], *values)
        return
    needed = library.ask("backward_workspace", BACKWARD, *pointers, 0, *values)
    workspace = x.new_empty(needed, dtype=torch.uint8)
    library.launch("backward", BACKWARD, *pointers, workspace.data_ptr(), *values)


def _exact(x: torch.Tensor) -> torch.dtype:
    """Return the dtype of the CPU computation."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _mapped(
    x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x - mean) / sqrt(variance + eps) and each channel's scale, in at least float32."""
    shape = (1, -1, *[1] * (x.dim() - 2))
    exact = _exact(x)
    rstd = (variance.to(exact) + eps).rsqrt().view(shape)
    scale = rstd if weight is None else rstd * weight.to(exact).view(shape)
    return (x.to(exact) - mean.to(exact).view(shape)) * rstd, scale


def _before(
    x: torch.Tensor, residual: torch.Tensor | None, mean: torch.Tensor, variance: torch.Tensor,
    weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float,
) -> torch.Tensor:  # fmt: skip
    """Return the input of the activation."""
    z, _ = _mapped(x, mean, variance, None, eps)
    shape = (1, -1, *[1] * (x.dim() - 2))
    if weight is not None:
        z = z * weight.to(z.dtype).view(shape)
    if bias is not None:
        z = z + bias.to(z.dtype).view(shape)
    return z if residual is None else z + residual.to(z.dtype)


def _compute(
    x: torch.Tensor, residual: torch.Tensor | None, mean: torch.Tensor, variance: torch.Tensor,
    weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, act: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    z = _before(x, residual, mean, variance, weight, bias, eps)
    return (activation.value(z, act).to(x.dtype).contiguous(memory_format=format_of(x)),)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, residual: torch.Tensor | None, mean: torch.Tensor,
    variance: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float, act: str,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    z = _before(x, residual, mean, variance, weight, bias, eps)
    _, scale = _mapped(x, mean, variance, weight, eps)
    dz = grad.to(z.dtype) * activation.slope(z, act)
    shapes = _backward_shapes(grad, x, residual, mean, variance, weight, bias, eps, act, wanted)
    over = [0, *range(2, x.dim())]
    normal, _ = _mapped(x, mean, variance, None, eps)
    of_parameters = ((dz * normal).sum(over), dz.sum(over))
    form = format_of(x)
    made = [value.to(x.dtype).contiguous(memory_format=form) for value in (dz * scale, dz)]
    made += [value.to(shape.dtype) for value, shape in zip(of_parameters, shapes[2:], strict=True)]
    return tuple(value if want else shape for value, shape, want in zip(made, shapes, wanted, strict=True))


def _shapes(x: torch.Tensor, *others: Any) -> Tensors:
    return (torch.empty_like(x, memory_format=format_of(x)),)


def _backward_shapes(
    grad: Any, x: torch.Tensor, residual: Any, mean: Any, variance: Any, *others: Any
) -> Tensors:
    """Return tensors for the gradients of x, the activation's input, weight and bias; size 0 if unwanted."""
    form, wanted = format_of(x), others[-1]
    of_x = [torch.empty_like(x, memory_format=form) if want else x.new_empty(0) for want in wanted[:2]]
    of_parameters = [
        one.new_empty(one.shape) if want and one is not None else x.new_empty(0)
        for one, want in zip(others[:2], wanted[2:], strict=True)
    ]
    return (*of_x, *of_parameters)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return tuple(inputs[:6])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    """Return all gradients. Without an activation the residual's gradient is that of the result."""
    weight, bias = saved[4:6]
    eps, act = settings[6:]
    of_parameters = [weight is not None and needed[4], bias is not None and needed[5]]
    wanted = [needed[0], act != "none" and needed[1], *of_parameters]
    made: Sequence[torch.Tensor | None] = (None,) * 4
    if any(wanted):
        made = _OPERATOR.backward(grad, *saved, eps, act, wanted)
    dx, dz, dweight, dbias = (one if want else None for one, want in zip(made, wanted, strict=True))
    if needed[1] and act == "none":
        dz = grad
    return (dx, dz, None, None, dweight, dbias, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? residual, Tensor mean, Tensor variance, Tensor? weight, Tensor? bias, float eps,"
        " str act) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor? residual, Tensor mean, Tensor variance, Tensor? weight,"
        " Tensor? bias, float eps, str act, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
