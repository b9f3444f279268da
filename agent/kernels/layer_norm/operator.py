"""`torch.nn.functional.layer_norm` on the shipped kernel: operator `kernelwright::layer_norm_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors
from agent.kernels.replaying.replayed import replayed
from agent.kernels.rows import Parameters, Rows, fits, gradient_shapes
from agent.kernels.small import is_torchs

KERNEL = "layer_norm"
ENVELOPE = (
    "any rank, any trailing dimensions; copied where it is not contiguous",
    "weight and bias in the input's dtype or float32, each optional",
    "below 2^31 rows",
)
_ROWS = Rows(KERNEL, centred=True)


@replayed
def layer_norm(
    x: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, eps: float = 1e-5,
) -> torch.Tensor:  # fmt: skip
    """Compute `torch.nn.functional.layer_norm` with its arguments and errors.

    Fall back to torch and record why if the kernel does not support the call.
    """
    shape = tuple(normalized_shape)
    left = is_torchs(KERNEL, x, weight, bias)
    if left or not fits(x, shape, weight, bias) or not routing.takes(KERNEL, x, weight, bias):
        return F.layer_norm(x, normalized_shape, weight, bias, eps)
    return _OPERATOR(*routing.all_widened(x, weight, bias), len(shape), eps)


def _launch(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dims: int, eps: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.launch_forward(x, Parameters(weight, bias), dims, eps, statistics)


def _compute(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dims: int, eps: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.compute_forward(x, Parameters(weight, bias), dims, eps)


def _shapes(x: torch.Tensor, weight: Any, bias: Any, dims: int, eps: float) -> Tensors:
    return _ROWS.shapes(x, dims)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    mean: torch.Tensor, rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return _ROWS.launch_backward(grad, x, Parameters(weight, bias), (mean, rstd), wanted)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    mean: torch.Tensor, rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return _ROWS.compute_backward(grad, x, Parameters(weight, bias), (mean, rstd), wanted)


def _backward_shapes(
    grad: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: Any, rstd: Any,
    wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return gradient_shapes(x, Parameters(weight, bias), wanted)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (*inputs[:3], *results[1:])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    x, weight, bias, mean, rstd = saved
    wanted = list(needed[:3])
    grads = _OPERATOR.backward(grad, x, weight, bias, mean, rstd, wanted)
    return (*(made if want else None for made, want in zip(grads, wanted, strict=True)), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? weight, Tensor? bias, int dims, float eps) -> (Tensor, Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd, bool[] wanted)"
        " -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
