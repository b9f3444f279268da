"""What every policy is told beside the tree, and when each of them is content."""

from collections.abc import Callable
from math import log

from agent.records import Move, Record
from agent.search.tree import Tree


class Shape(Record):
    """How wide a search is, and what is good enough."""

    samples: int = 3
    """Lines begun afresh."""
    width: int = 2
    """Lines that are gone on with once kernels are verified."""
    patience: int = 2
    """Rounds of a line without a better kernel after which it ends."""
    good_enough: float | None = None
    """Share of the roofline that ends the search."""


Policy = Callable[[Tree, Shape], Move | None]
"""What is asked next, however much of the tree is still open; None: nothing before something comes in, or
nothing any more where nothing is open. A pure function."""


def is_reached(tree: Tree, shape: Shape) -> bool:
    """Whether the best can be left as it is: nothing times it, or it is near enough to the roofline."""
    best = tree.best
    if best is None:
        return False
    measured = best.evaluation.measurement
    if measured is None:
        return True
    fraction = measured.roofline_fraction
    return fraction is not None and shape.good_enough is not None and fraction >= shape.good_enough


def expected_gain(tree: Tree, shape: Shape) -> float | None:
    """What one more round is expected to bring, as the logarithm of a speedup; None while nothing is known.

    The mean of the latest rounds, as many as all lines together have patience for, and never more than what
    is left to the roofline.
    """
    best, window = tree.best, shape.patience * shape.width
    if best is None or len(tree.gains) < window:
        return None
    mean = sum(tree.gains[-window:]) / window
    measured = best.evaluation.measurement
    fraction = measured.roofline_fraction if measured else None
    return min(mean, max(0.0, -log(fraction))) if fraction else mean
