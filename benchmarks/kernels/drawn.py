"""Operands by how they are drawn: ordinary ones, and those made against a split into two fp16.

Products and convolutions draw from the same kinds. Each takes the shapes of two operands, whose second axis
is that over which products are summed, and gives both on the present GPU: a [m, k] and b^T [n, k], or an
image [images, channels, ...] and a weight [features, channels, ...].
"""

from collections.abc import Callable

import torch

Shape = tuple[int, ...]
Pair = tuple[torch.Tensor, torch.Tensor]
Draw = Callable[[Shape], torch.Tensor]
Family = Callable[[Shape, Shape], Pair]


def normal(shape: Shape) -> torch.Tensor:
    """Values of both signs."""
    return torch.randn(shape, device="cuda")


def positive(shape: Shape) -> torch.Tensor:
    """From 0 to 1, as KernelBench draws."""
    return torch.rand(shape, device="cuda")


def graded(shape: Shape) -> torch.Tensor:
    """Neighbours in depth differ by up to 12 orders of magnitude."""
    return torch.randn(shape, device="cuda") * 10 ** (torch.rand(shape, device="cuda") * 12 - 6)


def offset(shape: Shape) -> torch.Tensor:
    """All near 1000."""
    return 1000 + torch.randn(shape, device="cuda")


def unlucky(shape: Shape) -> torch.Tensor:
    """fp16 is as far off as it can be, and always to the same side: products of what it leaves add up."""
    return 1 + 2.0**-11 - torch.rand(shape, device="cuda") * 2.0**-14


def coherent(shape: Shape) -> torch.Tensor:
    """The same to the same side where values are of both signs, so that little beside it is left of a sum."""
    further = torch.rand(shape, device="cuda") * 2.0**-14
    above, below = 1 + 2.0**-11 - further, 1 + 2.0**-11 + further + 2.0**-20
    return torch.where(torch.rand(shape, device="cuda") < 0.5, above, -below)


def halfway(shape: Shape) -> torch.Tensor:
    """Of both signs; what two fp16 leave is half a digit of a float, always to the same side."""
    digits = 2048 + 4 * torch.randint(400, shape, device="cuda")
    above, below = 1 + (digits + 1) * 2.0**-23, 1 + (digits + 3) * 2.0**-23
    return torch.where(torch.rand(shape, device="cuda") < 0.5, above, -below)


def near_one(shape: Shape) -> torch.Tensor:
    """Two fp16 hold each value."""
    return 1 + 2.0**-13 * torch.rand(shape, device="cuda")


def cancelling(shape: Shape) -> torch.Tensor:
    """Each value stands beside nearly its negative."""
    values = torch.randn(shape, device="cuda")
    values[:, 1::2] = -values[:, : shape[1] // 2 * 2 : 2] * (1 + 1e-4 * torch.rand(1, device="cuda"))
    return values


def doubled(shape: Shape) -> torch.Tensor:
    """Each value stands beside itself: of sums with `cancelling` little is left."""
    values = torch.randn(shape, device="cuda")
    values[:, 1::2] = values[:, : shape[1] // 2 * 2 : 2]
    return values


def rectified(shape: Shape) -> torch.Tensor:
    """Half of them zeros."""
    return normal(shape).relu()


def pruned(shape: Shape) -> torch.Tensor:
    """All but a tenth zeros."""
    return normal(shape) * (positive(shape) < 0.1)


def _of(one: Draw, other: Draw | None = None) -> Family:
    def drawn(first: Shape, second: Shape) -> Pair:
        return one(first), (other or one)(second)

    drawn.__name__ = one.__name__ + ("" if other is None else f" and {other.__name__}")
    return drawn


def masked(first: Shape, second: Shape) -> Pair:
    """The first half of the one is 2^40 times as large as the rest, and meets zeros of the other."""
    one, other = normal(first), normal(second)
    one[:, : first[1] // 2] *= 2.0**40
    other[:, : first[1] // 2] = 0
    return one, other


def masked_columns(first: Shape, second: Shape) -> Pair:
    """`masked` with the operands exchanged."""
    other, one = masked(second, first)
    return one, other


def masked_beside(first: Shape, second: Shape) -> Pair:
    """The same of every eighth value: beside each large one stand those that count."""
    one, other = normal(first), normal(second)
    one[:, ::8] *= 2.0**20
    other[:, ::8] = 0
    return one, other


FAMILIES = (
    _of(normal), _of(positive), _of(graded), _of(offset), _of(unlucky), _of(coherent), _of(halfway, near_one),
    _of(near_one, halfway), _of(cancelling), _of(cancelling, doubled), _of(rectified, normal),
    _of(normal, pruned), _of(rectified, pruned), _of(pruned), masked, masked_columns, masked_beside,
)  # fmt: skip


def bordered(shape: Shape) -> torch.Tensor:
    """Zeros but for four pixels along the edges of the last two dimensions."""
    image = normal(shape)
    image[..., 4:-4, 4:-4] = 0
    return image


def edged(shape: Shape) -> torch.Tensor:
    """2^20 times as large along the edges, beside which padding stands."""
    image = normal(shape) * 2.0**20
    image[..., 1:-1, 1:-1] /= 2.0**20
    return image


def spotted(shape: Shape) -> torch.Tensor:
    """One of a hundred values is 2^20 times as large."""
    return torch.where(positive(shape) < 0.01, 2.0**20, 1.0) * normal(shape)


def flat(shape: Shape) -> torch.Tensor:
    """Nearly the same everywhere."""
    return 1 + 1e-3 * normal(shape)


def balanced(shape: Shape) -> torch.Tensor:
    """A weight of which each feature's values add up to nothing."""
    weight = normal(shape)
    return weight - weight.flatten(1).mean(1).view(-1, *(1,) * (len(shape) - 1))


def half_blank(first: Shape, second: Shape) -> Pair:
    """`masked_beside` where half of the image is zeros."""
    image, weight = masked_beside(first, second)
    image[..., : first[-1] // 2] = 0
    return image, weight


OF_IMAGES = (
    _of(bordered, normal), _of(edged, normal), _of(spotted, normal), _of(normal, spotted),
    _of(flat, balanced), half_blank,
)  # fmt: skip
"""Those that ask for dimensions behind the channels."""
