"""How far a size may go down, and what has to hold for that.

Contract: pure numbers. A Level says which roles are scaled down, what remainder they keep and what the sizes
may lose; a search tries one after the other. `lower_values` are what a dimension may come to at a level.
"""

from typing import NamedTuple

from agent.problems.roles import Dimension, Role

SMALL = 32
"""Constructor sizes up to here stay: channels per group, heads and kernel sizes live there."""
ROUNDS = 1024
"""What is reduced over stays above it where it is: a loop of a block over it goes round more than once."""


class Level(NamedTuple):
    """How far a search may go."""

    modulus: int
    last: Role
    """Roles up to this one are scaled down."""
    rests: bool = True
    """Whether a window that leaves elements over at the end still has to."""
    rounds: bool = True
    """Whether what is reduced over stays above ROUNDS."""
    extents: bool = True
    """Whether dimensions that differ have to stay different, and none may become 1."""


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
"""Where nothing else is enough; a candidate that leaves such an argument out cannot be built from them."""
LOOSE = (
    Level(32, Role.REDUCED, rests=False, rounds=False, extents=False),
    Level(8, Role.REDUCED, rests=False, rounds=False, extents=False),
    Level(4, Role.CONSTRUCTOR, rests=False, rounds=False, extents=False),
)
"""The last resort, for deep networks: what is small in the middle may be 1, or as large as something else."""


def lower_values(dimension: Dimension, value: int, level: Level) -> tuple[int, ...]:
    """Values below `value` that a dimension may take: about half of it and so on down, then those between.

    The latter are for where a half is the size of another dimension, or more than is affordable.
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
    """The least that a dimension may come to.

    Space: a window along one dimension goes over more than a block of threads, along two over a tile of 16
    and along three over half of one, so that there are borders, an interior and a remainder.
    """
    if dimension.role is Role.SPACE and dimension.space == 1:
        return ROUNDS * level.modulus // 32 + 1
    if dimension.role is Role.SPACE:
        return max(16, level.modulus) if dimension.space == 2 else max(8, level.modulus // 2)
    if dimension.role is Role.REDUCED and level.rounds and dimension.value > ROUNDS:
        return ROUNDS + 1
    return max(16 if dimension.role is Role.FREE else 2, level.modulus)


def _lower_batches(value: int, real: int) -> tuple[int, ...]:
    """Down to 2 for an even batch and 3 for an odd one, or a little more where that is another size."""
    least = 2 + real % 2
    found = []
    lower = value
    while lower > least:
        half = lower // 2
        lower = max(half - (half - real) % (32 if half >= 64 else 2), least)
        found.append(lower)
    return (*found, *(v for v in range(least + 1, min(least + 4, value)) if v not in found))
