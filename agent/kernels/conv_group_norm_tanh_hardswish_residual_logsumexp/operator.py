"""logsumexp over the channels of c + hardswish(tanh(GroupNorm(c))), where c is a 3x3 convolution.

The operator has the folder's name in `kernelwright::`. The backward recomputes the convolution and the norm
to get the gradient of c. Torch then computes the gradients of x, weight and bias.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream

KERNEL = "conv_group_norm_tanh_hardswish_residual_logsumexp"
DTYPES = (torch.float32,)
ENVELOPE = (
    "a convolution of 3x3, stride 1, without padding, dilation or groups, of any number of channels",
    "any group count that divides the output channels; bias, gamma and beta each optional",
    "below 65536 images, each of fewer than 2^27 pixels; copied where it is not contiguous",
    "the gradients of x, weight and bias by torch's operators, with torch's setting of TF32",
)
FORWARD = "14qd2q"
BACKWARD = "16qd2q"
"""Struct formats of `Forward` and `Backward` in csrc/interface.h."""
_MOST_IMAGES, _MOST_PIXELS = 1 << 16, 1 << 27
_Parameter = torch.Tensor | None


def conv_group_norm_tanh_hardswish_residual_logsumexp(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, num_groups: int, gamma: _Parameter = None,
    beta: _Parameter = None, eps: float = 1e-5,
) -> torch.Tensor:  # fmt: skip
    """Return logsumexp(c + hardswish(tanh(group_norm(c, ...))), dim=1, keepdim=True) of c = conv2d(x, ...).

    x is [n, in, h, w], weight [out, in, 3, 3]; bias, gamma and beta are [out] or None. The result is
    [n, 1, h - 2, w - 2]. Falls back to torch and records why if the kernel does not support the call. Raises
    whatever torch raises.
    """
    parameters = (weight, bias, gamma, beta)
    # Invalid and empty calls go to torch, which gives the error or the empty result.
    if not _is_right(x, num_groups, *parameters) or x.numel() == 0 or not _takes(x, *parameters):
        return _native(x, weight, bias, num_groups, gamma, beta, eps)
    return _OPERATOR(x, *parameters, num_groups, eps)


def _native(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, groups: int, gamma: _Parameter, beta: _Parameter,
    eps: float,
) -> torch.Tensor:  # fmt: skip
    c = F.conv2d(x, weight, bias)
    bent = F.hardswish(torch.tanh(F.group_norm(c, groups, gamma, beta, eps)))
    return torch.logsumexp(c + bent, dim=1, keepdim=True)


def _is_right(x: torch.Tensor, groups: int, weight: torch.Tensor, *parameters: _Parameter) -> bool:
    """Return True if torch accepts these shapes."""
    if x.dim() != 4 or weight.dim() != 4 or x.shape[1] != weight.shape[1] or groups < 1:
        return False
    if min(x.shape[2] - weight.shape[2], x.shape[3] - weight.shape[3]) < 0 or weight.shape[0] % groups:
        return False
    return all(value is None or value.shape == weight.shape[:1] for value in parameters)


def _takes(x: torch.Tensor, weight: torch.Tensor, *parameters: _Parameter) -> bool:
    if routing.is_disabled():
        return False
    if weight.shape[2:] != (3, 3):
        routing.fall_back(KERNEL, f"the weight is {weight.shape[2]}x{weight.shape[3]}, and it takes 3x3")
    elif x.shape[0] >= _MOST_IMAGES or x.shape[2] * x.shape[3] >= _MOST_PIXELS:
        routing.fall_back(KERNEL, "there are more images or pixels than it counts")
    else:
        return routing.takes(KERNEL, x, weight, *parameters, dtypes=DTYPES)
    return False


def _launch(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, gamma: _Parameter, beta: _Parameter, groups: int,
    eps: float, statistics: bool = True,
) -> Tensors:  # fmt: skip
    x = x.contiguous()
    kept = [None if value is None else value.contiguous() for value in (weight, bias, gamma, beta)]
    (y,) = _shapes(x, weight, bias, gamma, beta, groups, eps)
    pointers = (x.data_ptr(), *map(address, kept), y.data_ptr())
    n, inputs, height, width = x.shape
    device = x.get_device()
    values = (n, inputs, weight.shape[0], height, width, groups, 0, eps, stream(x), device)
    library = routing.library(KERNEL, device)
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device)
    library.launch("forward", FORWARD, *pointers, workspace.data_ptr(), *values)
    return (y,)


def _compute(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, gamma: _Parameter, beta: _Parameter, groups: int,
    eps: float, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (_native(x, weight, bias, groups, gamma, beta, eps).contiguous(),)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, gamma: _Parameter,
    beta: _Parameter, y: torch.Tensor, groups: int, eps: float, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    """Return the gradients of x, weight, bias, gamma and beta; an unwanted gradient is empty."""
    grad, x, y = grad.contiguous(), x.contiguous(), y.contiguous()
    kept = [None if value is None else value.contiguous() for value in (weight, bias, gamma, beta)]
    n, inputs, height, width = x.shape
    channels, device = weight.shape[0], x.get_device()
    dc = x.new_empty((n, channels, height - 2, width - 2))
    sums = x.new_empty((2, n, channels))
    pointers = [grad.data_ptr(), x.data_ptr(), *map(address, kept)]
    pointers += [y.data_ptr(), dc.data_ptr(), sums.data_ptr()]
    values = (n, inputs, channels, height, width, groups, eps, stream(x), device)
    library = routing.library(KERNEL, device)
    needed = library.ask("backward_workspace", BACKWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device)
    library.launch("backward", BACKWARD, *pointers, workspace.data_ptr(), *values)
    dbeta, dgamma = sums.sum(1)
    return _all_gradients(dc, dgamma, dbeta, x, weight, bias, gamma, beta, wanted)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, gamma: _Parameter,
    beta: _Parameter, y: torch.Tensor, groups: int, eps: float, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    aten = torch.ops.aten
    c = F.conv2d(x, weight, bias).contiguous()
    # Replaces a missing gamma by ones, since torch's own backward fails for beta without gamma.
    scale = c.new_ones(c.shape[1]) if gamma is None else gamma
    sizes = (c.shape[0], c.shape[1], c.shape[2] * c.shape[3], groups)
    z, mean, rstd = aten.native_group_norm(c, scale, beta, *sizes, eps)
    t = torch.tanh(z)
    dv = grad * torch.exp(c + F.hardswish(t) - y)
    # hardswish(t) = t (t + 3) / 6 for |t| <= 1, and t is a tanh.
    dz = dv * (2 * t + 3) / 6 * (1 - t.square())
    dc, dgamma, dbeta = aten.native_group_norm_backward(
        dz, c, mean, rstd, scale, *sizes, [True, wanted[3], wanted[4]]
    )
    return _all_gradients(dv + dc, dgamma, dbeta, x, weight, bias, gamma, beta, wanted)


def _all_gradients(
    dc: torch.Tensor, dgamma: torch.Tensor, dbeta: torch.Tensor, x: torch.Tensor, weight: torch.Tensor,
    bias: _Parameter, gamma: _Parameter, beta: _Parameter, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    mask = [wanted[0], wanted[1], wanted[2] and bias is not None]
    form = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    made = torch.ops.aten.convolution_backward(dc, x, weight, [dc.shape[1]], *form, mask)
    found = (*made, None if gamma is None else dgamma, None if beta is None else dbeta)
    return tuple(
        x.new_empty(0) if not want or value is None else value.contiguous()
        for value, want in zip(found, wanted, strict=True)
    )


def _shapes(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, gamma: Any, beta: Any, groups: int, eps: float
) -> Tensors:
    return (x.new_empty((x.shape[0], 1, x.shape[2] - weight.shape[2] + 1, x.shape[3] - weight.shape[3] + 1)),)


def _backward_shapes(
    grad: Any, x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, gamma: _Parameter, beta: _Parameter,
    y: Any, groups: int, eps: float, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    return tuple(
        x.new_empty(0) if not want or place is None
        else torch.empty_like(place, memory_format=torch.contiguous_format)
        for place, want in zip((x, weight, bias, gamma, beta), wanted, strict=True)
    )  # fmt: skip


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (*inputs[:5], results[0])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    wanted = list(needed[:5])
    made = _OPERATOR.backward(grad, *saved, *settings[5:7], wanted)
    return (*(value if want else None for value, want in zip(made, wanted, strict=True)), None, None)


_TENSORS = "Tensor x, Tensor weight, Tensor? bias, Tensor? gamma, Tensor? beta"
_SETTINGS = "int groups, float eps"
_OPERATOR = Operator(
    KERNEL,
    Direction(f"({_TENSORS}, {_SETTINGS}) -> Tensor", cpu=_compute, cuda=_launch, fake=_shapes),
    Direction(
        f"(Tensor grad, {_TENSORS}, Tensor y, {_SETTINGS}, bool[] wanted)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
