"""`torch.matmul` and `torch.addmm` in float16 and bfloat16: operator `kernelwright::matmul_half_forward`.

Gradients are products by the same operator over transposed views of the operands, without a copy.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.matmul_fp32x3 import by_torch
from agent.kernels.matmul_fp32x3.product import (
    WHOLE,
    Parts,
    Sum,
    fit,
    gradients,
    is_right,
    matrices,
    shape_of,
)
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, address, stream

F = torch.nn.functional

KERNEL = "matmul_half"
FORWARD = "18q2d2q"
"""Struct format of `Forward` in csrc/sizes.cuh; its last two fields are the stream and the device."""
ROWS = "8q"
"""Struct format of `Rows` in csrc/sizes.cuh."""
DTYPES = (torch.float16, torch.bfloat16)
ENVELOPE = (
    "a and b of rank 2 and more, of one dtype, batches broadcast, any sizes; read as they lie, transposed or"
    " strided",
    "alpha * a @ b + beta * c, c of that dtype, anything that broadcasts to the product",
    "sums in float32 on the tensor cores, rounded once; sm_80 and later",
    "left to torch, whose product is faster, large ones of odd sizes with zeros up to a multiple of 8;"
    " AGENT_KERNELS_ALWAYS=1 takes it",
)


def matmul_half(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0
) -> torch.Tensor:
    """Return alpha * a @ b + beta * c like torch.matmul and torch.addmm; c broadcasts to the product.

    Torch's product is faster and computes on a GPU too unless AGENT_KERNELS_ALWAYS is set. Large products of
    odd sizes are zero-padded to a multiple of 8 for it. Falls back to torch and records why if the kernel
    does not support the call. Raises whatever torch raises.
    """
    c = None if beta == 0 else c
    if _is_torchs(a, b, c):
        return _by_torch(a, b, Sum(c, alpha, beta)).contiguous()
    if not _is_right(a, b, c) or not routing.takes(KERNEL, a, b, c, dtypes=DTYPES):
        return _by_torch(a, b, Sum(c, alpha, beta))
    return _OPERATOR(a, b, c, float(alpha), float(beta))


def _is_torchs(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    """Return True if torch computes this eager call and its gradients.

    An operator around torch would cost the host several times the time of a small product.
    """
    if not by_torch.are_plain(DTYPES, a, b, c) or routing.is_always():
        return False
    return not _are_worth_zeros(a.shape, b.shape, by_torch.wants_gradients(a, b))


def _is_right(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    return a.dtype == b.dtype and (c is None or c.dtype == a.dtype) and is_right(a, b, c)


def _by_torch(a: torch.Tensor, b: torch.Tensor, added: Sum) -> torch.Tensor:
    """Return alpha * a @ b + beta * c in torch's operators, rounded once where torch has a fused operator."""
    c, alpha, beta = added
    if c is None and alpha == 1:
        return torch.matmul(a, b)
    if a.dim() == b.dim() == 2 and c is not None and c.dim() <= 2:
        return torch.addmm(c, a, b, alpha=alpha, beta=beta)
    y = torch.matmul(a, b) * alpha
    return y if c is None else torch.add(y, c, alpha=beta)


_ODD_OF_US, _EVEN_OF_US, _BYTES_OF_US, _LAUNCHES_US = 67e6, 330e6, 2.5e6, 10.0
"""Model of cuBLAS: multiplications per us with rows at odd elements and with rows aligned to 16 bytes, bytes
that copies move per us, and us for their launches. On an H200, [8205, 2949] @ [2949, 5921] takes 0.44 ms with
zero padding instead of 2.14 ms.
"""


def is_worth_zeros(batch: int, m: int, n: int, k: int) -> bool:
    """Return True if zero padding makes a product of these sizes faster, the extra copies included."""
    products = batch * m * n * k
    copied = 4 * batch * (m * k + k * n + m * n) / _BYTES_OF_US + _LAUNCHES_US
    return (k % 2 == 1 or n % 2 == 1) and products / _ODD_OF_US > 1.2 * (products / _EVEN_OF_US + copied)


@lru_cache(maxsize=4096)
def _are_worth_zeros(a: torch.Size, b: torch.Size, is_step: bool) -> bool:
    """Return True if zero padding makes a product of these shapes or one of its gradients faster."""
    return fit(a, b) and any(is_worth_zeros(*sizes) for sizes in by_torch.products_of(a, b, is_step))


def with_zeros(a: torch.Tensor, b: torch.Tensor, added: Sum) -> torch.Tensor:
    """Return the product with K, the columns and, for rank 2, the rows zero-padded to a multiple of 8.

    cuBLAS loads every element by itself where rows begin at odd elements. An odd number of rows costs it half
    as much time again.
    """
    m, (k, n) = a.shape[-2], b.shape[-2:]
    more_m, more_k, more_n = -m % 8 if a.dim() == b.dim() == 2 else 0, -k % 8, -n % 8
    c = added.c
    if c is not None and c.dim() > 0 and c.shape[-1] == n:
        c = F.pad(c, (0, more_n))
    if c is not None and c.dim() > 1 and c.shape[-2] == m:
        c = F.pad(c, (0, 0, 0, more_m))
    a, b = _sized(a, m + more_m, k + more_k), _sized(b, k + more_k, n + more_n)
    return _sized(_by_torch(a, b, added._replace(c=c)), m, n)


def _sized(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Return x [..., r, c] cropped or zero-padded to this many rows and columns, contiguous."""
    r, c = x.shape[-2:]
    if not x.is_cuda or not x.is_contiguous() or (rows != r and x.dim() > 2):
        return F.pad(x, (0, columns - c, 0, rows - r)).contiguous()
    return _copied(x, rows, columns)


def _copied(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Return `_sized` by the copy kernel. x is contiguous; only a single matrix may change its number of
    rows.
    """
    y = x.new_empty((*x.shape[:-2], rows, columns))
    device, c = x.get_device(), x.shape[-1]
    routing.library(KERNEL, device).launch(
        "copy_rows", ROWS, x.data_ptr(), y.data_ptr(), x.numel() // c, c, y.numel() // columns, columns,
        stream(y), device,
    )  # fmt: skip
    return y


@cache
def _has_tensor_cores(device: int) -> bool:
    """Return True if a CUDA device has `mma.sync` for both dtypes."""
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _left_to_torch(a: torch.Tensor, b: torch.Tensor, added: Sum) -> torch.Tensor:
    *batch, m, n = shape_of(a, b)
    computed = with_zeros if is_worth_zeros(prod(batch), m, n, a.shape[-1]) else _by_torch
    return computed(a, b, added).contiguous()


def _multiplied(a: torch.Tensor, b: torch.Tensor, added: Sum) -> torch.Tensor:
    """Return the product on CUDA: by the kernel if it is forced and the GPU supports it, else by torch."""
    if not routing.is_always() or not _has_tensor_cores(a.get_device()):
        return _left_to_torch(a, b, added)
    shape = shape_of(a, b)
    y = a.new_empty(shape)
    (a, b, c), (batch, m, n) = matrices(a, b, added.c, shape, rows_join=True)
    device = y.get_device()
    steps = (*a.stride(), *b.stride(), *(c.stride() if c is not None else (0, 0, 0)))
    routing.library(KERNEL, device).launch(
        "forward", FORWARD, a.data_ptr(), b.data_ptr(), address(c), y.data_ptr(), batch, m, n, a.shape[-1],
        *steps, routing.DTYPES[y.dtype], added.alpha, added.beta, stream(y), device,
    )  # fmt: skip
    return y


def _launch(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, alpha: float, beta: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (_multiplied(a, b, Sum(c, alpha, beta)),)


def _compute(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, alpha: float, beta: float,
    statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (_by_torch(a, b, Sum(c, alpha, beta)).contiguous(),)


def _shapes(a: torch.Tensor, b: torch.Tensor, c: Any, alpha: float, beta: float) -> Tensors:
    return (a.new_empty(shape_of(a, b)),)


def _launch_backward(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    def multiplied(x: torch.Tensor, y: torch.Tensor, parts: Parts) -> torch.Tensor:
        return _multiplied(x, y, Sum(None, alpha, 1.0))

    return gradients(multiplied, (grad, a, b), shape, beta, WHOLE, wanted)


def _compute_backward(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    def multiplied(x: torch.Tensor, y: torch.Tensor, parts: Parts) -> torch.Tensor:
        return _by_torch(x, y, Sum(None, alpha, 1.0))

    return gradients(multiplied, (grad, a, b), shape, beta, WHOLE, wanted)


def _backward_shapes(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    shapes = (a.shape, b.shape, shape)
    return tuple(a.new_empty(each if want else 0) for each, want in zip(shapes, wanted, strict=True))


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[:3]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    a, b, c = saved
    wanted = list(needed[:3])
    made = _OPERATOR.backward(grad, a, b, [] if c is None else list(c.shape), *settings[-2:], wanted)
    return (*(value if want else None for value, want in zip(made, wanted, strict=True)), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor a, Tensor b, Tensor? c, float alpha, float beta) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor a, Tensor b, SymInt[] shape, float alpha, float beta, bool[] wanted)"
        " -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
