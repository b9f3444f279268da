"""Limits on how far a size may be scaled down, and the conditions for it.

Pure numbers. A Level says which roles are scaled down, what remainder they keep and which properties the
sizes may lose. A search tries the levels in order. `lower_values` lists the values of a dimension at a level.
"""

from typing import NamedTuple

from agent.problems.roles import Dimension, Role

SMALL = 32
"""Largest constructor size that is kept: channels per group, heads and kernel sizes are this small."""
ROUNDS = 1024
"""Size that a larger reduction stays above, so that a block's loop over it takes more than one iteration."""


class Level(NamedTuple):
    """Limits on how far a search may scale sizes down."""

    modulus: int
    last: Role
    """Last role, in order, that is scaled down."""
    rests: bool = True
    """True if a window that leaves elements over at the end must still leave some over."""
    rounds: bool = True
    """True if a reduction larger than ROUNDS must stay above it."""
    extents: bool = True
    """True if dimensions that differ must stay different, and none may become 1."""


LEVELS = (
    Level(32, Role.REDUCED),
    Level(32, Role.REDUCED, rounds=False),
    Level(16, Role.REDUCED, rounds=False),
    Level(8, Role.REDUCED, rounds=False),
    Level(32, Role.CONSTRUCTOR, rounds=False),
    Level(16, Role.CONSTRUCTOR, rounds=False),
    Level(8, Role.CONSTRUCTOR, rounds=False),
    Level(4, Role.CONSTRUCTOR, rounds=False),
    Level(4, Role.CONSTRUCTOR, rests=False, rounds=False),
)
BY_DEFAULTS = (
    Level(32, Role.DEFAULT, rounds=False),
    Level(4, Role.DEFAULT, rests=False, rounds=False),
)
"""Levels that also change defaults of the constructor, for when no other level is enough.

A candidate whose constructor lacks an argument with a default cannot be built then.
"""
LOOSE = (
    Level(32, Role.REDUCED, rests=False, rounds=False, extents=False),
    Level(8, Role.REDUCED, rests=False, rounds=False, extents=False),
    Level(4, Role.CONSTRUCTOR, rests=False, rounds=False, extents=False),
)
"""Last resort for deep networks: a small inner dimension may become 1 or equal another one."""


def lower_values(dimension: Dimension, value: int, level: Level) -> tuple[int, ...]:
    """Return values below `value` that a dimension may take: halves of it in turn, then values near those.

    The near values help if a half equals another dimension or is more than affordable.
    """
    if dimension.role is Role.BATCH:
        return _lower_batches(value, dimension.value)
    if dimension.role >= Role.CONSTRUCTOR and dimension.value <= SMALL:
        return ()
    modulus = level.modulus * dimension.step
    least = floor(dimension, level)
    least += (dimension.value - least) % modulus
    halves = []
    lower = value
    while lower > least:
        half = lower // 2
        lower = max(least, half - (half - dimension.value) % modulus)
        halves.append(lower)
    near = {one + modulus * step for one in halves for step in (1, 2, 3)}
    between = sorted((v for v in near if v < value and v not in halves), reverse=True)
    return (*halves, *between)


def floor(dimension: Dimension, level: Level) -> int:
    """Return the smallest size that a search may give a dimension.

    A dimension under a 1D window stays larger than a block of threads. Under a 2D window a dimension keeps a
    tile of 16, under a 3D window half a tile. These sizes leave borders, an interior and a remainder.
    """
    if dimension.role is Role.SPACE and dimension.space == 1:
        return ROUNDS * level.modulus // 32 + 1
    if dimension.role is Role.SPACE:
        return max(16, level.modulus) if dimension.space == 2 else max(8, level.modulus // 2)
    if dimension.role is Role.REDUCED and level.rounds and dimension.value > ROUNDS:
        return ROUNDS + 1
    return max(16 if dimension.role is Role.FREE else 2, level.modulus)


def _lower_batches(value: int, real: int) -> tuple[int, ...]:
    """Return batches down to 2 (even) or 3 (odd), then slightly larger ones in case that size is taken."""
    least = 2 + real % 2
    found = []
    lower = value
    while lower > least:
        half = lower // 2
        lower = max(half - (half - real) % (32 if half >= 64 else 2), least)
        found.append(lower)
    return (*found, *(v for v in range(least + 1, min(least + 4, value)) if v not in found))
