"""Checks that let eager mode call torch directly for a product and its gradients, without the kernel's
operator.
"""

from collections.abc import Collection, Sequence
from math import prod

import torch

from agent.kernels.matmul_fp32x3.product import joined


def are_plain(dtypes: Collection[torch.dtype], a: torch.Tensor, *others: torch.Tensor | None) -> bool:
    """Return True for an eager call whose tensors share one CUDA device and one of these dtypes.

    Return False under autocast, which could change the dtype.
    """
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cuda"):
        return False
    if not a.is_cuda or a.dtype not in dtypes:
        return False
    for x in others:  # noqa: SIM110  # a generator costs more than the comparisons
        if x is not None and (x.dtype != a.dtype or x.device != a.device):
            return False
    return True


def wants_gradients(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return True if autograd may ask for the gradients of a @ b."""
    return torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)


def products_of(a: Sequence[int], b: Sequence[int], is_step: bool) -> tuple[tuple[int, int, int, int], ...]:
    """Return (batch, m, n, k) of a @ b, and with `is_step` also of the products in its gradients.

    The shapes have to fit.
    """
    (m, k), n = a[-2:], b[-1]
    batch = prod(joined(a[:-2], b[:-2]))
    if not is_step:
        return ((batch, m, n, k),)
    of_b = (1, k, n, batch * m) if len(b) == 2 else (batch, k, n, m)
    return (batch, m, n, k), (batch, m, k, n), of_b
