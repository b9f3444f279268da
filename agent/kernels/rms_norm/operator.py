"""`torch.nn.functional.rms_norm` on the shipped kernel: operator `kernelwright::rms_norm_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors
from agent.kernels.replaying.replayed import replayed
from agent.kernels.rows import Parameters, Rows, fits, gradient_shapes
from agent.kernels.small import is_torchs

KERNEL = "rms_norm"
ENVELOPE = (
    "any rank, any trailing dimensions; copied where it is not contiguous",
    "weight in the input's dtype or float32, optional",
    "below 2^31 rows",
)
_ROWS = Rows(KERNEL, centred=False)


@replayed
def rms_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """Compute `torch.nn.functional.rms_norm` with its arguments and errors.

    Fall back to torch and record why if the kernel does not support the call.
    """
    shape = tuple(normalized_shape)
    if not fits(x, shape, weight) or is_torchs(KERNEL, x, weight) or not routing.takes(KERNEL, x, weight):
        return F.rms_norm(x, normalized_shape, weight, eps)
    return _OPERATOR(x, weight, len(shape), torch.finfo(x.dtype).eps if eps is None else eps)


def _launch(
    x: torch.Tensor, weight: torch.Tensor | None, dims: int, eps: float, statistics: bool = True
) -> Tensors:
    return _ROWS.launch_forward(x, Parameters(weight), dims, eps, statistics)


def _compute(
    x: torch.Tensor, weight: torch.Tensor | None, dims: int, eps: float, statistics: bool = True
) -> Tensors:
    return _ROWS.compute_forward(x, Parameters(weight), dims, eps)


def _shapes(x: torch.Tensor, weight: Any, dims: int, eps: float) -> Tensors:
    return _ROWS.shapes(x, dims)


def _launch_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    wanted: Sequence[bool],
) -> Gradients:
    return _ROWS.launch_backward(grad, x, Parameters(weight), (rstd,), (*wanted, False))[:2]


def _compute_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    rstd: torch.Tensor,
    wanted: Sequence[bool],
) -> Gradients:
    return _ROWS.compute_backward(grad, x, Parameters(weight), (rstd,), (*wanted, False))[:2]


def _backward_shapes(
    grad: Any, x: torch.Tensor, weight: torch.Tensor | None, rstd: Any, wanted: Sequence[bool]
) -> Gradients:
    return gradient_shapes(x, Parameters(weight), (*wanted, False))[:2]


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (*inputs[:2], results[1])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    wanted = list(needed[:2])
    grads = _OPERATOR.backward(grad, *saved, wanted)
    return (*(made if want else None for made, want in zip(grads, wanted, strict=True)), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? weight, int dims, float eps) -> (Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor? weight, Tensor rstd, bool[] wanted) -> (Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
