"""Parameters of every policy besides the tree, and the criteria that end a search."""

from collections.abc import Callable
from math import log

from agent.records import Move, Record
from agent.search.tree import Tree

WORTH = 0.01
"""Minimum expected gain, as a log speedup. A search of several lines ends when another round brings less."""


class Shape(Record):
    """Width of a search, and the quality that ends it."""

    samples: int = 4
    """Number of lines of attempts that start from scratch."""
    width: int = 2
    """Number of lines of attempts that are continued, or of islands in `evolve`."""
    patience: int = 2
    """Number of answers without a better kernel after which a line ends."""
    good_enough: float | None = None
    """Share of the roofline that ends the search."""
    plan: bool = False
    """True if the approaches for the lines are asked for first."""


Policy = Callable[[Tree, Shape], Move | None]
"""Function that returns the next question besides the open ones; None to wait or to end. Must be pure."""


def is_reached(tree: Tree, shape: Shape) -> bool:
    """Return True if the best kernel suffices: it cannot be timed, or is near enough to the roofline."""
    best = tree.best
    if best is None:
        return False
    measured = best.evaluation.measurement
    if measured is None:
        return True
    fraction = measured.roofline_fraction
    return fraction is not None and shape.good_enough is not None and fraction >= shape.good_enough


def is_worth_a_round(tree: Tree, shape: Shape) -> bool:
    """Return True if another round is expected to gain enough, or if the gain is unknown."""
    gain = expected_gain(tree, shape)
    return gain is None or gain >= WORTH


def expected_gain(tree: Tree, shape: Shape) -> float | None:
    """Return the gain expected from one more round as a log speedup, or None if too little is known.

    The gain is the mean over the latest `patience * width` answers, limited to the distance to the roofline.
    Answers that begin a line are left out: they do not try to improve the best.
    """
    window = shape.patience * shape.width
    begun = {node.round for node in tree.nodes.values() if node.begins}
    pairs = zip(tree.gains, tree.answered, strict=True)
    gains = [gain for gain, number in pairs if number not in begun]
    if tree.best is None or len(gains) < window:
        return None
    mean = sum(gains[-window:]) / window
    measured = tree.best.evaluation.measurement
    fraction = measured.roofline_fraction if measured else None
    return min(mean, max(0.0, -log(fraction))) if fraction else mean
