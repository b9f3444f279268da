"""`torch.nn.functional.linear` with float32 accuracy: operator `kernelwright::linear_fp32x3_forward`.

Gradients are products by the same kernels over transposed copies of the operands.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.linear_fp32x3 import product
from agent.kernels.linear_fp32x3.prepared import DTYPES, PreparedWeight
from agent.kernels.operators import Direction, Gradient, Operator, Tensors

KERNEL = product.KERNEL
FORWARD, SPLIT = product.FORWARD, product.SPLIT
ENVELOPE = (
    "x of any rank from 1, weight of rank 2, any sizes; copied where they are not contiguous",
    "float32 alone, under autocast too",
    "fp32x3: three fp16 products on the tensor cores of sm_90, sums in float32, from a K of 256 and at sizes"
    " where that is faster; elsewhere as ieee",
    "ieee: float32 arithmetic on every GPU, by torch's SGEMM unless torch may use TF32",
    "an infinity meets a value below 2^-39 of its row's largest as if that were 0",
)


def linear_fp32x3(
    x: torch.Tensor, weight: torch.Tensor | PreparedWeight, bias: torch.Tensor | None = None, *,
    precision: str = "fp32x3",
) -> torch.Tensor:  # fmt: skip
    """Return x [*, k] @ weight [n, k].T + bias [n], at least as accurate as F.linear with TF32 off.

    precision is fp32x3 (the tensor cores of sm_90 where they are faster) or ieee (float32 arithmetic: torch's
    SGEMM, or the kernel where torch may use TF32). The weight is split in every call unless it comes from
    `prepare_weight`. Falls back to torch and records why if the kernel does not support the call. Raises
    ValueError for another precision and for a prepared weight that has changed, and whatever torch raises.
    Method: Ootomo and Yokota, arXiv 2203.03341.
    """
    product.number_of(precision)
    packed = None
    if isinstance(weight, PreparedWeight):
        packed = weight.current()
        weight = weight.weight
    return by_split(x, weight, bias, packed, precision)


def by_split(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, packed: torch.Tensor | None,
    precision: str,
) -> torch.Tensor:  # fmt: skip
    """Return the result of `linear_fp32x3`; `packed` is the split weight, or None to split it here."""
    x, weight = routing.widened(x), routing.widened(weight)
    bias = None if bias is None else routing.widened(bias)
    # Invalid and empty calls go to torch, which gives the error or the empty result.
    if not _is_right(x, weight, bias) or not routing.takes(KERNEL, x, weight, bias, dtypes=DTYPES):
        return F.linear(x, weight, bias)
    return _OPERATOR(x, weight, bias, packed, precision)


def _is_right(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    return (
        x.dim() > 0
        and weight.dim() == 2
        and x.shape[-1] == weight.shape[1]
        and x.numel() > 0
        and weight.numel() > 0
        and (bias is None or bias.shape == weight.shape[:1])
    )


def _launch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, packed: torch.Tensor | None,
    precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (product.multiplied(x, weight, bias, packed, precision),)


def _compute(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, packed: torch.Tensor | None,
    precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (F.linear(x, weight, bias).contiguous(),)


def _shapes(x: torch.Tensor, weight: torch.Tensor, bias: Any, packed: Any, precision: str) -> Tensors:
    return (x.new_empty((*x.shape[:-1], weight.shape[0])),)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, precision: str, wanted: Sequence[bool]
) -> Tensors:
    def multiplied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return product.multiplied(a, b, None, None, precision)

    return gradients(multiplied, grad, x, weight, wanted)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, precision: str, wanted: Sequence[bool]
) -> Tensors:
    return gradients(F.linear, grad, x, weight, wanted)


def gradients(
    multiplied: Any, grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, wanted: Sequence[bool]
) -> Tensors:
    """Return the gradients of x, weight and bias, empty where unwanted. `multiplied(a, b)` is a @ b.T."""
    rows, of_rows = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
    dx, dweight, dbias = (x.new_empty(0) for _ in range(3))
    if wanted[0]:
        dx = multiplied(rows, weight.t().contiguous()).view(x.shape)
    if wanted[1]:
        dweight = multiplied(rows.t().contiguous(), of_rows.t().contiguous())
    if wanted[2]:
        dbias = rows.sum(0)
    return dx, dweight, dbias


def _backward_shapes(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, precision: str, wanted: Sequence[bool]
) -> Tensors:
    shapes = (x.shape, weight.shape, weight.shape[:1])
    return tuple(x.new_empty(shape if want else 0) for shape, want in zip(shapes, wanted, strict=True))


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[:2]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    x, weight = saved
    wanted = list(needed[:3])
    made = _OPERATOR.backward(grad, x, weight, settings[-1], wanted)
    return (*(value if want else None for value, want in zip(made, wanted, strict=True)), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor weight, Tensor? bias, Tensor? packed, str precision) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor weight, str precision, bool[] wanted) -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
