"""Which convolutions go to the tensor cores: those where they are faster than torch's.

Drawn from KernelBench's shapes and 31 of networks; 39 others were kept for checking it (docs/products.md).
What the kernel takes follows from its tiles; what torch takes does not, so that the rule asks how fast the
tensor cores would be in TFLOP/s: torch reaches 20 to 44 with most dense convolutions, less in three
dimensions and least for transposed ones in groups.
"""

from functools import lru_cache
from math import ceil, prod

from agent.kernels.conv_fp32x3.window import Ints, Window, shape_at

_SMS, _TILE, _DEPTH = 132, 128, 64
_STAGE_US, _UNIT_US, _HALF_US, _HALF_UNIT_US = 2.3, 4.5, 2.05, 2.6
"""Of a stage of 64 of the depth and of a tile beside its stages; the same for tiles of 64 features."""
_LAUNCH_US, _HOST_US, _JOIN_US = 20.0, 100.0, 6.0
"""Of a convolution, of each when it is one of many, and of joining what several blocks have of a tile."""
PLANE_RATE, LEAST_RATE, BACK_RATE = 30.0, 27.0, 9.0
"""In TFLOP/s, from where on the tensor cores are faster. In one and two dimensions; in three, and transposed;
in three and transposed."""
SPREAD_PLANE_RATE, SPREAD_RATE, GROUPS_RATE = 12.0, 5.0, 1.5
"""Transposed with a stride: in one and two dimensions, in three, and in groups."""
FEW_TAPS, MANY_PIXELS = 15, 1 << 18
"""Transposed ones in two dimensions: up to so many taps cuDNN has other algorithms, but for large images."""


@lru_cache(maxsize=4096)
def is_worth_at(x: Ints, weight: Ints, window: Window) -> bool:
    """Whether the tensor cores were faster than torch at such shapes, for a GPU that has those of sm_90."""
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
    # Of 5 x 5 without steps cuDNN has a transform that multiplies less: 97 TFLOP/s for AlexNet's.
    if not window.transposed and weight[2:] == (5, 5) and window.stride == window.dilation == (1, 1):
        return False
    return rate >= (PLANE_RATE, LEAST_RATE, BACK_RATE)[window.transposed + (space == 3)]


def _spread_is_worth(space: int, groups: int, products: float, rate: float) -> bool:
    """Of a transposed convolution that is several, of so many products each: those cost the host its time."""
    if space == 3:
        return products >= 3e8 and rate >= (GROUPS_RATE if groups > 1 else SPREAD_RATE)
    return groups == 1 and products >= 2e9 and rate >= SPREAD_PLANE_RATE


def _expected_us(pixels: int, features: int, depth: float, launches: int) -> float:
    """Of so many tiles of pixels: in whole rounds, or with the stages shared out evenly."""
    is_half = 0 < features % _TILE <= _TILE // 2
    stage, unit = (_HALF_US, _HALF_UNIT_US) if is_half else (_STAGE_US, _UNIT_US)
    tiles = pixels * ceil(features / (_TILE // 2 if is_half else _TILE))
    stages, rounds = ceil(depth / _DEPTH), ceil(tiles / _SMS)
    whole = rounds * (stages * stage + unit)
    shared = tiles * stages / _SMS * stage + (rounds + 1) * unit + _JOIN_US
    return launches * (min(whole, shared) + (_HOST_US if launches > 1 else _LAUNCH_US))
