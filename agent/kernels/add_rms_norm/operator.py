"""RMSNorm of x + residual in one kernel: operator `kernelwright::add_rms_norm_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import add_rows, routing
from agent.kernels.add_rows import AddRows, Grads
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors
from agent.kernels.replaying.replayed import replayed
from agent.kernels.rows import Parameters, Rows, fits, gradient_shapes
from agent.kernels.small import is_torchs

KERNEL = "add_rms_norm"
ENVELOPE = (
    "any rank, any trailing dimensions; copied where it is not contiguous",
    "x and residual of one shape and dtype; not in half precision under autocast",
    "weight in the input's dtype or float32, optional",
    "below 2^31 rows",
)
_ROWS = AddRows(KERNEL, Rows("rms_norm", centred=False))


@replayed
def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (F.rms_norm(added, normalized_shape, weight, eps), added) for added = x + residual.

    The norm is that of the stored sum, rounded to the dtype of x. Fall back to torch and record why if the
    kernel does not support the call.
    """
    shape = tuple(normalized_shape)
    left = is_torchs(KERNEL, x, residual, weight)
    if left or not fits(x, shape, weight) or not _takes(x, residual, weight):
        added = x + residual
        return F.rms_norm(added, normalized_shape, weight, eps), added
    exact = torch.finfo(x.dtype).eps if eps is None else eps
    y, added = _OPERATOR.several(x, residual, weight, len(shape), exact)
    return y, added


def _takes(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None) -> bool:
    if routing.widened(x) is x:
        return add_rows.takes(KERNEL, x, residual, weight)
    if not routing.is_disabled():
        routing.fall_back(KERNEL, "autocast may want a norm in float32 of a sum in half precision")
    return False


def _launch(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, dims: int, eps: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.launch_forward((x, residual), Parameters(weight), dims, eps, statistics)


def _compute(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, dims: int, eps: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.compute_forward((x, residual), Parameters(weight), dims, eps)


def _shapes(x: torch.Tensor, residual: Any, weight: Any, dims: int, eps: float) -> Tensors:
    return _ROWS.shapes(x, dims)


def _launch_backward(
    grad: torch.Tensor, of_sum: torch.Tensor | None, added: torch.Tensor, weight: torch.Tensor | None,
    rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    given = Grads(grad, of_sum)
    return _ROWS.launch_backward(given, added, Parameters(weight), (rstd,), (*wanted, False))[:2]


def _compute_backward(
    grad: torch.Tensor, of_sum: torch.Tensor | None, added: torch.Tensor, weight: torch.Tensor | None,
    rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    given = Grads(grad, of_sum)
    return _ROWS.compute_backward(given, added, Parameters(weight), (rstd,), (*wanted, False))[:2]


def _backward_shapes(
    grad: Any, of_sum: Any, added: torch.Tensor, weight: torch.Tensor | None, rstd: Any,
    wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return gradient_shapes(added, Parameters(weight), (*wanted, False))[:2]


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (results[1], inputs[2], results[2])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grads: Sequence[Any]
) -> Sequence[Any]:
    of_norm, of_sum = grads
    if of_norm is None:
        return (of_sum, of_sum, None, None, None)
    dx, dweight = _OPERATOR.backward(of_norm, of_sum, *saved, [needed[0] or needed[1], needed[2]])
    return (dx if needed[0] else None, dx if needed[1] else None, dweight if needed[2] else None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor residual, Tensor? weight, int dims, float eps) -> (Tensor, Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor? of_sum, Tensor added, Tensor? weight, Tensor rstd, bool[] wanted)"
        " -> (Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
    values=2,
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
