"""LayerNorm of x + residual in one kernel: operator `kernelwright::add_layer_norm_forward`."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import add_rows, routing
from agent.kernels.add_rows import AddRows, Grads
from agent.kernels.layer_norm.operator import layer_norm
from agent.kernels.operators import Direction, Gradient, Gradients, Operator, Tensors
from agent.kernels.replaying.replayed import replayed
from agent.kernels.rows import Parameters, Rows, fits, gradient_shapes
from agent.kernels.small import is_torchs

KERNEL = "add_layer_norm"
ENVELOPE = (
    "any rank, any trailing dimensions; copied where it is not contiguous",
    "x and residual of one shape and dtype; in half precision under autocast a sum and layer_norm",
    "weight and bias in the input's dtype or float32, each optional",
    "below 2^31 rows",
)
_ROWS = AddRows(KERNEL, Rows("layer_norm", centred=True))


@replayed
def add_layer_norm(
    x: torch.Tensor, residual: torch.Tensor, normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return (F.layer_norm(added, normalized_shape, weight, bias, eps), added) for added = x + residual.

    The norm is that of the stored sum, rounded to the dtype of x. Fall back to torch and record why if the
    kernel does not support the call.
    """
    if routing.widened(x) is not x:
        # Under autocast the norm is float32 and the sum half precision: the outputs differ in dtype.
        added = x + residual
        return layer_norm(added, normalized_shape, weight, bias, eps), added
    shape = tuple(normalized_shape)
    left = is_torchs(KERNEL, x, residual, weight, bias)
    if left or not fits(x, shape, weight, bias) or not add_rows.takes(KERNEL, x, residual, weight, bias):
        added = x + residual
        return F.layer_norm(added, normalized_shape, weight, bias, eps), added
    weight, bias = routing.all_widened(weight, bias)
    y, added = _OPERATOR.several(x, residual, weight, bias, len(shape), eps)
    return y, added


def _launch(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    dims: int, eps: float, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.launch_forward((x, residual), Parameters(weight, bias), dims, eps, statistics)


def _compute(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    dims: int, eps: float, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return _ROWS.compute_forward((x, residual), Parameters(weight, bias), dims, eps)


def _shapes(x: torch.Tensor, residual: Any, weight: Any, bias: Any, dims: int, eps: float) -> Tensors:
    return _ROWS.shapes(x, dims)


def _launch_backward(
    grad: torch.Tensor, of_sum: torch.Tensor | None, added: torch.Tensor, weight: torch.Tensor | None,
    bias: torch.Tensor | None, mean: torch.Tensor, rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    given = Grads(grad, of_sum)
    return _ROWS.launch_backward(given, added, Parameters(weight, bias), (mean, rstd), wanted)


def _compute_backward(
    grad: torch.Tensor, of_sum: torch.Tensor | None, added: torch.Tensor, weight: torch.Tensor | None,
    bias: torch.Tensor | None, mean: torch.Tensor, rstd: torch.Tensor, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    given = Grads(grad, of_sum)
    return _ROWS.compute_backward(given, added, Parameters(weight, bias), (mean, rstd), wanted)


def _backward_shapes(
    grad: Any, of_sum: Any, added: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None,
    mean: Any, rstd: Any, wanted: Sequence[bool],
) -> Gradients:  # fmt: skip
    return gradient_shapes(added, Parameters(weight, bias), wanted)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return (results[1], *inputs[2:4], *results[2:])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grads: Sequence[Any]
) -> Sequence[Any]:
    of_norm, of_sum = grads
    if of_norm is None:
        return (of_sum, of_sum, None, None, None, None)
    wanted = [needed[0] or needed[1], *needed[2:4]]
    made = _OPERATOR.backward(of_norm, of_sum, *saved, wanted)
    each = zip((made[0], *made), needed[:4], strict=True)
    return (*(grad if want else None for grad, want in each), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, int dims, float eps)"
        " -> (Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor? of_sum, Tensor added, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd,"
        " bool[] wanted) -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
    values=2,
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
