"""`torch.matmul` and `torch.addmm` with float32 accuracy: operator `kernelwright::matmul_fp32x3_forward`.

Gradients are products of the same kind over transposed views of the operands, without a copy.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.matmul_fp32x3 import by_torch, product
from agent.kernels.matmul_fp32x3.product import Parts, Sum, kept, number_of
from agent.kernels.operators import Direction, Gradient, Operator, Tensors
from agent.kernels.replaying import watching

KERNEL = product.KERNEL
FORWARD = product.FORWARD
DTYPES = (torch.float32,)
ENVELOPE = (
    "a and b of rank 2 and more, batches broadcast, any sizes; read as they lie, transposed or strided",
    "alpha * a @ b + beta * c, c anything that broadcasts to the product",
    "lower and upper triangular operands by what they are: the other side is not read",
    "one side of the result alone: the other is 0 and is not computed",
    "float32 alone, under autocast too",
    "fp32x3: three fp16 products on the tensor cores of sm_90, four up to a K of 512, sums in float32, at"
    " sizes where that was measured to be faster; elsewhere torch's SGEMM, or the ieee path where torch may"
    " use TF32",
    "fp32x4: a fourth product, of what three leave out, at every size from a K of 32",
    "bf16x6: three bf16 of each value and six products, both operands read once, from a K of 32 where they"
    " lie in 16-byte pieces; where a value meets few others fp32x3 reads them once too, as two fp16 of each"
    " value from a K of 1024, and as three bf16 below and where two may not be enough",
    "ieee: float32 arithmetic on every GPU",
    "an infinity meets a value below 2^-39 of the largest that shares its scale as if that were 0",
)


def matmul_fp32x3(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    precision: str = "fp32x3", a_is: str = "whole", b_is: str = "whole", y_is: str = "whole",
) -> torch.Tensor:  # fmt: skip
    """Return alpha * a @ b + beta * c like torch.addmm and torch.matmul with TF32 off.

    c broadcasts to the product. a_is and b_is are whole, or lower or upper for a triangular operand. The side
    outside the triangle is not read and counts as 0, and known zeros are not multiplied. y_is
    names the side of the result that is computed; the other side is 0.

    precision is one of:

    - fp32x3: three fp16 products on the tensor cores of sm_90, at sizes where that was measured to be faster.
      At other sizes torch's SGEMM, or ieee where torch may use TF32.
    - fp32x4: four fp16 products on the tensor cores, wherever K is at least 32.
    - bf16x6: six products of three bf16 parts per value, split while the operands are read. Behaves like
      fp32x4 where the operands are not aligned to 16 bytes.
    - ieee: float32 arithmetic.

    Falls back to torch and records why if the kernel does not support the call. Raises ValueError for another
    precision or part, and whatever torch raises.
    """
    number_of(precision)
    product.check_part("a_is", a_is)
    product.check_part("b_is", b_is)
    product.check_part("y_is", y_is)
    parts = a_is, b_is, y_is
    if precision == "fp32x3" and _is_torchs(a, b, c):
        return _by_torch(a, b, Sum(None if beta == 0 else c, alpha, beta), parts).contiguous()
    a, b = routing.widened(a), routing.widened(b)
    c = None if c is None or beta == 0 else routing.widened(c)
    if not product.is_right(a, b, c) or not routing.takes(KERNEL, a, b, c, dtypes=DTYPES):
        return _by_torch(a, b, Sum(c, alpha, beta), parts)
    return _OPERATOR(a, b, c, float(alpha), float(beta), precision, *parts)


def _is_torchs(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    """Return True if torch computes this eager call and its gradients.

    An operator around torch would cost the host several times the time of a small product.
    """
    if not by_torch.are_plain(DTYPES, a, b, c) or torch.backends.cuda.matmul.allow_tf32:
        return False
    return not _may_be_worth(a.shape, b.shape, by_torch.wants_gradients(a, b))


@lru_cache(maxsize=4096)
def _may_be_worth(a: torch.Size, b: torch.Size, is_step: bool) -> bool:
    """Return True if the tensor cores may be faster for operands of these shapes or for their gradients."""
    return product.fit(a, b) and any(
        product.is_worth_at(*sizes) or (sizes[0] == 1 and product.is_read_once_at(*sizes[1:]))
        for sizes in by_torch.products_of(a, b, is_step)
    )


def _by_torch(a: torch.Tensor, b: torch.Tensor, added: Sum, parts: Parts) -> torch.Tensor:
    y = torch.matmul(kept(a, parts[0]), kept(b, parts[1]))
    if added.alpha != 1:
        y = y * added.alpha
    return kept(y if added.c is None else torch.add(y, added.c, alpha=added.beta), parts[2])


def _launch(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, alpha: float, beta: float, precision: str,
    a_is: str, b_is: str, y_is: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (_on_gpu(a, b, Sum(c, alpha, beta), precision, (a_is, b_is, y_is)),)


def _on_gpu(a: torch.Tensor, b: torch.Tensor, added: Sum, precision: str, parts: Parts) -> torch.Tensor:
    """Return alpha * a @ b + beta * c on CUDA, by the fastest path with float32 accuracy."""
    if precision != "fp32x3" or product.is_worth(a, b):
        return product.multiplied(a, b, added, precision, parts)
    watching.leave_to_python()  # a program may change the flag between calls
    if torch.backends.cuda.matmul.allow_tf32:
        return product.multiplied(a, b, added, "ieee", parts)
    return _by_torch(a, b, added, parts).contiguous()


def _compute(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None, alpha: float, beta: float, precision: str,
    a_is: str, b_is: str, y_is: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    return (_by_torch(a, b, Sum(c, alpha, beta), (a_is, b_is, y_is)).contiguous(),)


def _shapes(
    a: torch.Tensor, b: torch.Tensor, c: Any, alpha: float, beta: float, precision: str, a_is: str, b_is: str,
    y_is: str,
) -> Tensors:  # fmt: skip
    return (a.new_empty(product.shape_of(a, b)),)


def _launch_backward(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    precision: str, a_is: str, b_is: str, y_is: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    def multiplied(x: torch.Tensor, y: torch.Tensor, parts: Parts) -> torch.Tensor:
        return _on_gpu(x, y, Sum(None, alpha, 1.0), precision, parts)

    return product.gradients(multiplied, (grad, a, b), shape, beta, (a_is, b_is, y_is), wanted)


def _compute_backward(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    precision: str, a_is: str, b_is: str, y_is: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    def multiplied(x: torch.Tensor, y: torch.Tensor, parts: Parts) -> torch.Tensor:
        return _by_torch(x, y, Sum(None, alpha, 1.0), parts)

    return product.gradients(multiplied, (grad, a, b), shape, beta, (a_is, b_is, y_is), wanted)


def _backward_shapes(
    grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor, shape: Sequence[int], alpha: float, beta: float,
    precision: str, a_is: str, b_is: str, y_is: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    shapes = (a.shape, b.shape, shape)
    return tuple(a.new_empty(each if want else 0) for each, want in zip(shapes, wanted, strict=True))


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[:3]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    a, b, c = saved
    alpha, beta, *how = settings[-6:]
    wanted = list(needed[:3])
    shape = [] if c is None else list(c.shape)
    made = _OPERATOR.backward(grad, a, b, shape, alpha, beta, *how, wanted)
    return (
        *(value if want else None for value, want in zip(made, wanted, strict=True)),
        *(None,) * 6,
    )


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor a, Tensor b, Tensor? c, float alpha, float beta, str precision, str a_is, str b_is,"
        " str y_is)"
        " -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor a, Tensor b, SymInt[] shape, float alpha, float beta, str precision,"
        " str a_is, str b_is, str y_is, bool[] wanted) -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
