"""Rule for the convolutions that go to the tensor cores, because they are faster there than in torch.

The rule was fitted to KernelBench's shapes and 31 shapes of networks, and checked on 39 other shapes
(docs/products.md). The kernel's time follows from its tiles, torch's does not. The rule therefore compares
the tensor cores' expected TFLOP/s with a threshold. Torch reaches 20 to 44 TFLOP/s with most dense
convolutions, less in three dimensions, and least for transposed ones in groups.
"""

from functools import lru_cache
from math import ceil, prod

from agent.kernels.conv_fp32x3.window import Ints, Window, shape_at

_SMS, _TILE, _DEPTH = 132, 128, 64
_STAGE_US, _UNIT_US, _HALF_US, _HALF_UNIT_US = 2.3, 4.5, 2.05, 2.6
"""us of a stage (64 of K) and of a tile without its stages, then both numbers for tiles of 64 features."""
_LAUNCH_US, _HOST_US, _JOIN_US = 20.0, 100.0, 6.0
"""us of a launch, of each launch where a call has several, and of adding up the parts of a tile."""
PLANE_RATE, LEAST_RATE, BACK_RATE = 30.0, 27.0, 9.0
"""TFLOP/s from which the tensor cores are faster.

In order: one and two dimensions; three dimensions, or transposed; three dimensions and transposed.
"""
SPREAD_PLANE_RATE, SPREAD_RATE, GROUPS_RATE = 12.0, 5.0, 1.5
"""TFLOP/s thresholds for a transposed convolution with a stride: one and two dimensions; three; three with
groups.
"""
FEW_TAPS, MANY_PIXELS = 15, 1 << 18
"""Taps up to which, and output pixels below which, cuDNN's transposed 2-d convolutions are faster."""


@lru_cache(maxsize=4096)
def is_worth_at(x: Ints, weight: Ints, window: Window) -> bool:
    """Return True if the tensor cores of sm_90 were faster than torch at these shapes."""
    y, space, groups = shape_at(x, weight, window), len(x) - 2, window.groups
    features, depth = y[1] // groups, x[1] // groups * prod(weight[2:])
    spread = prod(window.stride) if window.transposed else 1
    products = prod(x if window.transposed else y) * prod(weight[1:])
    pixels = groups * ceil(y[0] * prod(y[2:]) / spread / _TILE)
    rate = 2e-6 * products / _expected_us(pixels, features, depth / spread, spread)
    if spread > 1:
        return _spread_is_worth(space, groups, products / spread, rate)
    if groups > 1 or features < (16 if space == 3 else 32) or depth < (27 if space == 3 else 64):
        return False
    if window.transposed and space == 2 and prod(weight[2:]) <= FEW_TAPS and prod(y[2:]) < MANY_PIXELS:
        return False
    # Leaves 5x5 at stride 1 to cuDNN, which has a transform with fewer multiplications: 97 TFLOP/s for
    # AlexNet's layer.
    if not window.transposed and weight[2:] == (5, 5) and window.stride == window.dilation == (1, 1):
        return False
    return rate >= (PLANE_RATE, LEAST_RATE, BACK_RATE)[window.transposed + (space == 3)]


def _spread_is_worth(space: int, groups: int, products: float, rate: float) -> bool:
    """Return True if a transposed convolution of several launches is faster on the tensor cores than in
    torch.

    `products` is the number of multiplications per launch; every launch costs host time.
    """
    if space == 3:
        return products >= 3e8 and rate >= (GROUPS_RATE if groups > 1 else SPREAD_RATE)
    return groups == 1 and products >= 2e9 and rate >= SPREAD_PLANE_RATE


def _expected_us(pixels: int, features: int, depth: float, launches: int) -> float:
    """Return the expected us for `pixels` tiles of pixels: the minimum of whole waves and split-K."""
    is_half = 0 < features % _TILE <= _TILE // 2
    stage, unit = (_HALF_US, _HALF_UNIT_US) if is_half else (_STAGE_US, _UNIT_US)
    tiles = pixels * ceil(features / (_TILE // 2 if is_half else _TILE))
    stages, rounds = ceil(depth / _DEPTH), ceil(tiles / _SMS)
    whole = rounds * (stages * stage + unit)
    shared = tiles * stages / _SMS * stage + (rounds + 1) * unit + _JOIN_US
    return launches * (min(whole, shared) + (_HOST_US if launches > 1 else _LAUNCH_US))
