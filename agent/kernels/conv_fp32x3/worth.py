"""Which convolutions go to the tensor cores: those where they were measured to be faster than torch's.

Drawn from some 90 shapes on an H200 (benchmarks/kernels/README.md). What the kernel takes is known well from
its tiles; what torch takes is not, so that the rule asks how fast the tensor cores would be in TFLOP/s: torch
reaches 20 to 58 with dense convolutions, less in three dimensions and least for transposed ones in groups.
"""

from functools import lru_cache
from math import ceil, prod

from agent.kernels.conv_fp32x3.window import Ints, Window, shape_at

_SMS, _TILE, _DEPTH = 132, 128, 64
_STAGE_US, _UNIT_US, _LAUNCH_US, _HOST_US, _BYTES_OF_US = 2.4, 2.5, 30.0, 100.0, 4e6
"""Of a stage of 64 of the depth, of a tile beside its stages, of a convolution, of each when it is one of
many; how many bytes are read in one."""
PLANE_RATE, LEAST_RATE, BACK_RATE, SPREAD_RATE, GROUPS_RATE = 24.0, 12.0, 9.0, 5.0, 1.5
"""In TFLOP/s: what torch may reach with few products for a value. In one and two dimensions; in three, and
transposed; in three and transposed; with a stride as well; and in groups."""
FEW_TAPS, MANY_PIXELS = 15, 1 << 18
"""Transposed ones in two dimensions: up to so many taps cuDNN has other algorithms, but for large images."""
SURE_RATE, FULL = 33.0, 4 * _SMS
"""Above this rate the tensor cores were never slower. Below it there have to be this many tiles: with fewer
torch cuts the depth into parts."""


@lru_cache(maxsize=4096)
def is_worth_at(x: Ints, weight: Ints, window: Window) -> bool:
    """Whether the tensor cores were faster than torch at such shapes, for a GPU that has those of sm_90."""
    y, space, groups = shape_at(x, weight, window), len(x) - 2, window.groups
    features, depth = y[1] // groups, x[1] // groups * prod(weight[2:])
    spread = prod(window.stride) if window.transposed else 1
    products = prod(x if window.transposed else y) * prod(weight[1:])
    tiles = groups * ceil(y[0] * prod(y[2:]) / spread / _TILE) * ceil(features / _TILE)
    rate = 2e-6 * products / _expected_us(tiles, depth / spread, spread, prod(x))
    if spread > 1:
        return _spread_is_worth(space, groups, products / spread, rate)
    if groups > 1 or features < (16 if space == 3 else 32) or depth < (27 if space == 3 else 64):
        return False
    if window.transposed and space == 2 and prod(weight[2:]) <= FEW_TAPS and prod(y[2:]) < MANY_PIXELS:
        return False
    least = (PLANE_RATE, LEAST_RATE, BACK_RATE)[window.transposed + (space == 3)]
    return rate >= SURE_RATE or (rate >= least and tiles >= FULL)


def _spread_is_worth(space: int, groups: int, products: float, rate: float) -> bool:
    """Of a transposed convolution that is several, of so many products each: those cost the host its time."""
    if space == 3:
        return products >= 3e8 and rate >= (GROUPS_RATE if groups > 1 else SPREAD_RATE)
    return groups == 1 and products >= 3e9 and rate >= LEAST_RATE


def _expected_us(tiles: int, depth: float, launches: int, values: int) -> float:
    each = ceil(tiles / _SMS) * (ceil(depth / _DEPTH) * _STAGE_US + _UNIT_US)
    return launches * (each + (_HOST_US if launches > 1 else _LAUNCH_US)) + 4 * values / _BYTES_OF_US
