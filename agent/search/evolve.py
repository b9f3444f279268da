"""Evolution for long budgets: islands that each keep the best kernel of every design they have found.

Islands take turns. An island usually makes its kernels faster. Sometimes it combines two of them, takes one
from another island, or begins afresh. Random draws depend only on the number of rounds so far.
"""

from random import Random

from agent.records import Attempt, Move
from agent.search import ideas
from agent.search.lines import Design, design, failures, time_ms, tips, verified
from agent.search.plans import beginning
from agent.search.shape import Shape, is_reached, is_worth_a_round
from agent.search.tree import Node, Tree

REPAIRS = 1
"""Maximum number of consecutive repairs of an answer.

More repairs are rarely worth more than a new answer.
"""
COMBINE, AFRESH = 0.2, 0.1
"""Shares of an island's rounds that combine two kernels, and that begin with a new approach."""
ABROAD = 0.5
"""Probability that the kernel to combine with may come from another island."""

Cells = dict[Design, tuple[Attempt, Node]]
"""Best kernel of each design, with the round that made it."""


def evolve(tree: Tree, shape: Shape) -> Move | None:
    if is_reached(tree, shape) or not is_worth_a_round(tree, _patient(shape)):
        return None
    begun = sum(node.begins for node in tree.nodes.values())
    if begun < max(shape.samples, shape.width):
        return beginning(tree, shape, begun, begun % shape.width)
    broken = (tip for tip in tips(tree) if not tip.open and 0 < failures(tree, tip) <= REPAIRS)
    mend = next(broken, None)
    if mend is not None:
        return Move(after=mend.round, island=mend.move.island)
    draw = Random(len(tree.nodes))
    island = len(tree.nodes) % shape.width
    own = _cells(tree, island)
    if not own or draw.random() < AFRESH:
        return None if tree.open and not own else beginning(tree, shape, begun, island)
    parent, node = _drawn(own, draw)
    abroad = _cells(tree, None) if draw.random() < ABROAD else own
    others = [pair for key, pair in abroad.items() if key != design(parent)]
    if others and draw.random() < COMBINE:
        return Move(after=node.round, beside=draw.choice(others)[1].round, island=island)
    children = sum(one.move.after == node.round for one in tree.nodes.values())
    return Move(after=node.round, idea=ideas.choose_idea(children), island=island)


def _patient(shape: Shape) -> Shape:
    """Return the shape with more patience, because evolution goes longer than a beam without improvement."""
    return shape.model_copy(update={"patience": 3 * shape.patience})


def _cells(tree: Tree, island: int | None) -> Cells:
    """Return the best kernel of each design, from one island or from all."""
    cells: Cells = {}
    for node in tree.nodes.values():
        attempt = verified(tree, node)
        if attempt is None or island not in (None, node.move.island):
            continue
        key = design(attempt)
        if key not in cells or time_ms(attempt) < time_ms(cells[key][0]):
            cells[key] = (attempt, node)
    return cells


def _drawn(cells: Cells, draw: Random) -> tuple[Attempt, Node]:
    """Draw a kernel at random; each is half as likely as the next faster one."""
    ranked = sorted(cells.values(), key=lambda pair: time_ms(pair[0]))
    return draw.choices(ranked, [0.5**place for place in range(len(ranked))])[0]
