"""Minimum over the features of GroupNorm(linear(x)), plus a bias: `linear_group_norm_min_bias_forward`.

On sm_90 the epilogue of the product computes the norm and the minimum, and the activation is never stored.
The gradient recomputes the activation.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.linear_fp32x3 import product
from agent.kernels.linear_fp32x3.prepared import DTYPES, PreparedWeight
from agent.kernels.linear_group_norm_min_bias import reference
from agent.kernels.matmul_fp32x3 import product as matmul
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream

KERNEL = "linear_group_norm_min_bias"
ENVELOPE = (
    "x of rank 2, any sizes, any group count that divides the features; copied where not contiguous",
    "bias of the shape (1, count, 1, 1); the result is (1, count, rows, 1)",
    "float32 alone, under autocast too; linear_bias, gamma and beta each optional",
    "fp32x3: the product of linear_fp32x3; groups of 8, 16, 32, 64 or 128 features in its epilogue, others in"
    " a pass of their own",
    "ieee: float32 arithmetic on every GPU, the product by torch's SGEMM unless torch may use TF32",
)
FORWARD = "16qd2q"
"""Struct format of `Forward` in csrc/launch.cuh."""


def linear_group_norm_min_bias(
    x: torch.Tensor, weight: torch.Tensor | PreparedWeight, linear_bias: torch.Tensor | None,
    num_groups: int, gamma: torch.Tensor | None, beta: torch.Tensor | None, bias: torch.Tensor, *,
    eps: float = 1e-5, precision: str = "fp32x3",
) -> torch.Tensor:  # fmt: skip
    """Return the minimum over the features of group_norm(linear(x, weight, linear_bias), ...), plus bias.

    x is [m, k], weight [n, k] or a `PreparedWeight`, linear_bias, gamma and beta [n], bias [1, count, 1, 1].
    The result is [1, count, m, 1]. precision is fp32x3 or ieee; see `linear_fp32x3`. Falls back to torch and
    records why if the kernel does not support the call. Raises ValueError for another precision and for a
    prepared weight that has changed, and whatever torch raises.
    """
    product.number_of(precision)
    packed = None
    if isinstance(weight, PreparedWeight):
        packed = weight.current()
        weight = weight.weight
    tensors = routing.all_widened(x, weight, linear_bias, gamma, beta, bias)
    # Invalid and empty calls go to torch, which gives the error or the empty result.
    if not _is_right(tensors, num_groups) or not _takes(tensors):
        x, weight, linear_bias, gamma, beta, bias = tensors  # type: ignore[assignment]
        z = F.group_norm(F.linear(x, weight, linear_bias), num_groups, gamma, beta, eps)
        return torch.min(z, dim=1, keepdim=True).values + bias
    return _OPERATOR(*tensors, packed, num_groups, eps, precision)


def _is_right(tensors: Sequence[Any], groups: int) -> bool:
    x, weight, *of_features, bias = tensors
    return (
        x.dim() == weight.dim() == 2
        and x.shape[1] == weight.shape[1]
        and min(x.numel(), weight.numel(), bias.numel()) > 0
        and groups > 0
        and weight.shape[0] % groups == 0
        and x.shape[0] * weight.shape[0] != groups
        and all(value is None or value.shape == weight.shape[:1] for value in of_features)
    )


def _takes(tensors: Sequence[Any]) -> bool:
    bias = tensors[-1]
    if bias.shape != (1, bias.numel(), 1, 1):
        if not routing.is_disabled():
            routing.fall_back(KERNEL, "the bias is not of the shape (1, count, 1, 1)")
        return False
    return routing.takes(KERNEL, *tensors, dtypes=DTYPES)


def _launch(
    x: torch.Tensor, weight: torch.Tensor, linear_bias: torch.Tensor | None, gamma: torch.Tensor | None,
    beta: torch.Tensor | None, bias: torch.Tensor, packed: torch.Tensor | None, groups: int, eps: float,
    precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    given = [
        None if value is None else value.contiguous()
        for value in (x, weight, linear_bias, gamma, beta, bias, packed)
    ]
    out = x.new_empty((1, bias.numel(), x.shape[0], 1))
    device = x.get_device()
    library = routing.library(KERNEL, device)
    known = F.linear(x, weight, linear_bias) if product.is_torchs(x, weight, packed, precision) else None
    pointers = (*map(address, given), address(known), out.data_ptr())
    sizes = (x.shape[0], *weight.shape, groups, bias.numel())
    values = (*sizes, product.number_of(precision), eps, stream(x), device)
    workspace = x.new_empty(
        library.ask("forward_workspace", FORWARD, *pointers, 0, *values), dtype=torch.uint8
    )
    library.launch("forward", FORWARD, *pointers, workspace.data_ptr(), *values)
    return (out,)


def _compute(
    x: torch.Tensor, weight: torch.Tensor, linear_bias: torch.Tensor | None, gamma: torch.Tensor | None,
    beta: torch.Tensor | None, bias: torch.Tensor, packed: torch.Tensor | None, groups: int, eps: float,
    precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (reference.forward(x, weight, linear_bias, gamma, beta, bias, groups, eps),)


def _shapes(
    x: torch.Tensor, weight: Any, linear_bias: Any, gamma: Any, beta: Any, bias: torch.Tensor, packed: Any,
    groups: int, eps: float, precision: str,
) -> Tensors:  # fmt: skip
    return (x.new_empty((1, bias.shape[1], x.shape[0], 1)),)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, linear_bias: torch.Tensor | None,
    gamma: torch.Tensor | None, beta: torch.Tensor | None, groups: int, eps: float, precision: str,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    def linear(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return product.multiplied(a, b, bias, None, precision)

    ours = precision == "fp32x3" and not product.is_torchs(x, weight, None, precision)
    products = reference.Products(linear, matmul.multiplied_sparse if ours else None)
    return reference.backward(products, grad, x, weight, linear_bias, gamma, beta, groups, eps, wanted)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, linear_bias: torch.Tensor | None,
    gamma: torch.Tensor | None, beta: torch.Tensor | None, groups: int, eps: float, precision: str,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    return reference.backward(
        reference.Products(F.linear), grad, x, weight, linear_bias, gamma, beta, groups, eps, wanted
    )


def _backward_shapes(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, linear_bias: Any, gamma: Any, beta: Any,
    groups: int, eps: float, precision: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    features = weight.shape[:1]
    shapes = (x.shape, weight.shape, features, features, features, (1, grad.shape[1], 1, 1))
    return tuple(x.new_empty(shape if want else 0) for shape, want in zip(shapes, wanted, strict=True))


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[:5]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    wanted = list(needed[:6])
    made = _OPERATOR.backward(grad, *saved, *settings[-3:], wanted)
    grads = [value if want else None for value, want in zip(made, wanted, strict=True)]
    return (*grads, None, None, None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor weight, Tensor? linear_bias, Tensor? gamma, Tensor? beta, Tensor bias,"
        " Tensor? packed, int groups, float eps, str precision) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor weight, Tensor? linear_bias, Tensor? gamma, Tensor? beta, int groups,"
        " float eps, str precision, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
