"""What every policy is told beside the tree, and when a search is content."""

from collections.abc import Callable
from math import log

from agent.records import Move, Record
from agent.search.tree import Tree

WORTH = 0.01
"""A search of several lines ends when another round is expected to make the best faster by less than this."""


class Shape(Record):
    """How wide a search is, and what is good enough."""

    samples: int = 4
    """Lines begun afresh."""
    width: int = 2
    """Lines that are gone on with; islands."""
    patience: int = 2
    """Answers on a line without a better kernel after which it ends."""
    good_enough: float | None = None
    """Share of the roofline that ends the search."""
    plan: bool = False
    """Whether the approaches that lines begin with are asked for before."""


Policy = Callable[[Tree, Shape], Move | None]
"""What is asked next beside what is open; None: nothing before something comes in, or nothing any more.

A pure function.
"""


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


def is_worth_a_round(tree: Tree, shape: Shape) -> bool:
    """Whether another round is expected to bring enough; unknown counts as yes."""
    gain = expected_gain(tree, shape)
    return gain is None or gain >= WORTH


def expected_gain(tree: Tree, shape: Shape) -> float | None:
    """What one more round should bring, as the logarithm of a speedup; None while too little is known.

    The mean over the latest rounds, as many as all lines together have patience for, and never more than what
    is left to the roofline. Lines that are begun afresh are no attempts to make the best faster.
    """
    window = shape.patience * shape.width
    fresh = sum(node.begins for node in tree.nodes.values())
    gains = tree.gains[fresh:]
    if tree.best is None or len(gains) < window:
        return None
    mean = sum(gains[-window:]) / window
    measured = tree.best.evaluation.measurement
    fraction = measured.roofline_fraction if measured else None
    return min(mean, max(0.0, -log(fraction))) if fraction else mean
