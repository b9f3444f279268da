"""`torch.nn.functional.group_norm` on the shipped kernel, with an optional activation and residual.

The operator is `kernelwright::group_norm_forward`. Statistics are [n, groups] in float32.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.group_norm import activation, reference
from agent.kernels.group_norm.layout import format_of, laid_out, layout_of
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors, address, stream
from agent.kernels.replaying.replayed import replayed

KERNEL = "group_norm"
ENVELOPE = (
    "rank 2 and more, any group count that divides the channels",
    "contiguous, or channels-last of rank 4 and 5; copied where it is neither",
    "weight and bias in the input's dtype or float32, each optional",
    "with silu, gelu (erf), relu, tanh or hardswish, and with a residual before it",
)
FORWARD = "17qd2q"
"""Format of the struct `Forward` in csrc/interface.h."""
BACKWARD = "23q"
_DENSE = torch.contiguous_format


@replayed
def group_norm(
    x: torch.Tensor, num_groups: int, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None,
    eps: float = 1e-5, *, act: str = "none", residual: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """Compute act(F.group_norm(x, num_groups, weight, bias, eps) + residual) in one kernel.

    `act` is none, silu, gelu, relu, tanh or hardswish. `residual` has the shape and dtype of x. Fall back to
    torch and record why if the kernel does not support the call. Raise ValueError for another `act`, and
    torch's own errors.
    """
    if act not in activation.NUMBERS:
        raise ValueError(f"act={act!r}: there are {', '.join(activation.NUMBERS)}")
    if not _is_right(x, num_groups, weight, bias, residual) or not _takes(x, weight, bias, residual):
        # Invalid arguments and empty tensors go to torch, which raises its own errors.
        y = F.group_norm(x, num_groups, weight, bias, eps)
        return activation.value(y if residual is None else y + residual, act)
    return _OPERATOR(*routing.all_widened(x, residual, weight, bias), num_groups, eps, act)


def _is_right(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None,
    residual: torch.Tensor | None,
) -> bool:  # fmt: skip
    """Return True if torch accepts the arguments without broadcasting and x is not empty."""
    shape = x.shape
    if len(shape) < 2 or groups < 1 or shape[1] % groups or x.numel() in (0, groups):
        return False
    of_channels = (shape[1],)
    return (
        (weight is None or weight.shape == of_channels)
        and (bias is None or bias.shape == of_channels)
        and (residual is None or residual.shape == shape)
    )


def _takes(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, residual: torch.Tensor | None
) -> bool:
    if residual is not None and (residual.dtype != x.dtype or residual.device != x.device):
        if not routing.is_disabled():
            routing.fall_back(KERNEL, "the residual has another dtype or device than the input")
        return False
    return routing.takes(KERNEL, x, weight, bias)


def _sizes(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None, layout: int,
    act: str,
) -> Any:  # fmt: skip
    """Return n, channels, spatial, groups, dtype, param_dtype, layout, act and path, as the struct `Forward`
    has them.
    """
    shape = x.shape
    n, channels = shape[0], shape[1]
    known = weight if weight is not None else x if bias is None else bias
    return (
        n, channels, x.numel() // (n * channels), groups, routing.DTYPES[x.dtype],
        routing.DTYPES[known.dtype], layout, activation.NUMBERS[act], 0,
    )  # fmt: skip


def _launch(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, bias: torch.Tensor | None,
    groups: int, eps: float, act: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    layout = layout_of(x)
    x = laid_out(x, layout)
    residual, weight, bias = _beside(layout, residual, weight, bias)
    y = torch.empty_like(x)
    made = (y, *_statistics(x, groups)) if statistics else (y,)
    places = [tensor.data_ptr() for tensor in made] if statistics else (y.data_ptr(), 0, 0)
    pointers = (x.data_ptr(), address(residual), address(weight), address(bias), *places)
    device = x.get_device()
    values = (*_sizes(x, groups, weight, bias, layout, act), eps, stream(x), device)
    library = routing.library(KERNEL, device)
    # The workspace size depends on these values alone if the tensors are aligned to vectors.
    alike = (*values[:9], residual is None) if not (pointers[0] | pointers[1] | pointers[4]) % 16 else None
    needed = library.remembered(alike, "forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = x.new_empty(needed, dtype=torch.uint8) if needed else None
    library.launch("forward", FORWARD, *pointers, address(workspace), *values)
    return made


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, mean: torch.Tensor, rstd: torch.Tensor, groups: int, act: str,
    wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    layout = layout_of(x)
    x, grad = laid_out(x, layout), laid_out(grad, layout)
    residual, weight, bias = _beside(layout, residual, weight, bias)
    grads = _gradient_shapes(x, weight, bias, wanted)
    pointers = (
        grad.data_ptr(), x.data_ptr(), address(residual), address(weight), address(bias), mean.data_ptr(),
        rstd.data_ptr(), *map(address, grads),
    )  # fmt: skip
    device = x.get_device()
    values = (*_sizes(x, groups, weight, bias, layout, act), stream(x), device)
    library = routing.library(KERNEL, device)
    places = pointers[0] | pointers[1] | pointers[2] | pointers[7] | pointers[8]
    alike = (*values[:9], residual is None, *wanted) if not places % 16 else None
    needed = library.remembered(alike, "backward_workspace", BACKWARD, *pointers, 0, *values)
    workspace = x.new_empty(needed, dtype=torch.uint8)
    library.launch("backward", BACKWARD, *pointers, workspace.data_ptr(), *values)
    return grads


def _beside(
    layout: int, residual: torch.Tensor | None, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> Any:
    """Return the residual in `layout` and contiguous weight and bias; None stays None."""
    return (
        None if residual is None else laid_out(residual, layout),
        None if weight is None else weight.contiguous(),
        None if bias is None else bias.contiguous(),
    )


def _statistics(x: torch.Tensor, groups: int) -> Tensors:
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    mean = x.new_empty((x.shape[0], groups), dtype=exact)
    return mean, torch.empty_like(mean)


def _shapes(
    x: torch.Tensor, residual: Any, weight: Any, bias: Any, groups: int, eps: float, act: str
) -> Tensors:
    return (torch.empty_like(x, memory_format=format_of(x)), *_statistics(x, groups))


def _gradient_shapes(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, wanted: Sequence[bool]
) -> Gradients:
    """Allocate the gradients of x, residual, weight and bias; None for an unwanted gradient."""
    form = format_of(x)
    return (
        torch.empty_like(x, memory_format=form) if wanted[0] else None,
        torch.empty_like(x, memory_format=form) if wanted[1] else None,
        None if weight is None or not wanted[2] else torch.empty_like(weight, memory_format=_DENSE),
        None if bias is None or not wanted[3] else torch.empty_like(bias, memory_format=_DENSE),
    )


def _backward_shapes(
    grad: Any, x: torch.Tensor, residual: Any, weight: torch.Tensor | None, bias: torch.Tensor | None,
    mean: Any, rstd: Any, groups: int, act: str, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return _gradient_shapes(x, weight, bias, wanted)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    x, residual, weight, bias, _, _, act = inputs
    # Only the gradient of an activation needs z = norm + residual again.
    return x, None if act == "none" else residual, weight, bias, *results[1:]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    *_, groups, _, act = settings
    wanted = list(needed[:4])
    straight = act == "none" and wanted[1]
    wanted[1] = wanted[1] and not straight
    made = _OPERATOR.backward(grad, *saved, groups, act, wanted)
    grads = [value if want else None for value, want in zip(made, wanted, strict=True)]
    if straight:
        grads[1] = grad
    return (*grads, None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, int groups, float eps, str act)"
        " -> (Tensor, Tensor, Tensor)",
        cpu=reference.forward, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd,"
        " int groups, str act, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=reference.backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
