"""Operands for products by how they are drawn: ordinary ones, and those made against a split into two fp16.

Each takes (m, n, k) and gives a [m, k] and b [k, n] on the present GPU.
"""

from collections.abc import Callable

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
Draw = Callable[[tuple[int, ...]], torch.Tensor]


def normal(shape: tuple[int, ...]) -> torch.Tensor:
    """Values of both signs."""
    return torch.randn(shape, device="cuda")


def positive(shape: tuple[int, ...]) -> torch.Tensor:
    """From 0 to 1, as KernelBench draws."""
    return torch.rand(shape, device="cuda")


def graded(shape: tuple[int, ...]) -> torch.Tensor:
    """Neighbours in depth differ by up to 12 orders of magnitude."""
    return torch.randn(shape, device="cuda") * 10 ** (torch.rand(shape, device="cuda") * 12 - 6)


def offset(shape: tuple[int, ...]) -> torch.Tensor:
    """All near 1000."""
    return 1000 + torch.randn(shape, device="cuda")


def unlucky(shape: tuple[int, ...]) -> torch.Tensor:
    """fp16 is as far off as it can be, and always to the same side: products of what it leaves add up."""
    return 1 + 2.0**-11 - torch.rand(shape, device="cuda") * 2.0**-14


def coherent(shape: tuple[int, ...]) -> torch.Tensor:
    """The same to the same side where values are of both signs, so that little beside it is left of a sum."""
    further = torch.rand(shape, device="cuda") * 2.0**-14
    above, below = 1 + 2.0**-11 - further, 1 + 2.0**-11 + further + 2.0**-20
    return torch.where(torch.rand(shape, device="cuda") < 0.5, above, -below)


def halfway(shape: tuple[int, ...]) -> torch.Tensor:
    """Of both signs; what two fp16 leave is half a digit of a float, always to the same side."""
    digits = 2048 + 4 * torch.randint(400, shape, device="cuda")
    above, below = 1 + (digits + 1) * 2.0**-23, 1 + (digits + 3) * 2.0**-23
    return torch.where(torch.rand(shape, device="cuda") < 0.5, above, -below)


def near_one(shape: tuple[int, ...]) -> torch.Tensor:
    """Two fp16 hold each value."""
    return 1 + 2.0**-13 * torch.rand(shape, device="cuda")


def cancelling(shape: tuple[int, ...]) -> torch.Tensor:
    """Each value stands beside nearly its negative, so that in sums of both little is left."""
    values = torch.randn(shape, device="cuda")
    values[..., 1::2] = -values[..., : shape[-1] // 2 * 2 : 2] * (1 + 1e-4 * torch.rand(1, device="cuda"))
    return values


def _of(one: Draw, other: Draw | None = None) -> Callable[[int, int, int], Pair]:
    def drawn(m: int, n: int, k: int) -> Pair:
        return one((m, k)), (other or one)((n, k)).mT

    drawn.__name__ = one.__name__ + ("" if other is None else f" and {other.__name__}")
    return drawn


def masked(m: int, n: int, k: int) -> Pair:
    """The first half of a is 2^40 times as large as the rest, and meets zeros of b."""
    a, b = normal((m, k)), normal((k, n))
    a[:, : k // 2] *= 2.0**40
    b[: k // 2] = 0
    return a, b


def masked_columns(m: int, n: int, k: int) -> Pair:
    """`masked` with the operands exchanged."""
    a, b = masked(n, m, k)
    return b.mT.contiguous(), a.mT.contiguous()


def masked_beside(m: int, n: int, k: int) -> Pair:
    """The same of every eighth value: beside each large one stand those that count."""
    a, b = normal((m, k)), normal((k, n))
    a[:, ::8] *= 2.0**20
    b[::8] = 0
    return a, b


FAMILIES = (
    _of(normal), _of(positive), _of(graded), _of(offset), _of(unlucky), _of(coherent), _of(halfway, near_one),
    _of(near_one, halfway), _of(cancelling), masked, masked_columns, masked_beside,
)  # fmt: skip
