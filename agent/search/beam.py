"""Beam search: begins several lines with different approaches, repairs each a little, continues the best.

Kept lines have different designs if possible, because two lines of one design would be asked for the same
improvements. A line that brings nothing faster is replaced by the next.
"""

from agent.records import Move
from agent.search.lines import design, failures, idle, time_ms, tips
from agent.search.plans import beginning
from agent.search.shape import Shape, is_reached, is_worth_a_round
from agent.search.tree import Node, Tree

REPAIRS = 2
"""Maximum number of consecutive repairs of a line before it is given up."""


def beam(tree: Tree, shape: Shape) -> Move | None:
    if is_reached(tree, shape) or not is_worth_a_round(tree, shape):
        return None
    lines = tips(tree)
    if len(lines) < shape.samples:
        return beginning(tree, shape, len(lines))
    kept = _kept(tree, lines, shape)
    waiting = next((tip for tip in kept if not tip.open), None)
    if waiting is not None:
        return Move(after=waiting.round)
    if not kept and tree.best is None:
        return beginning(tree, shape, len(lines))
    return None


def _kept(tree: Tree, lines: tuple[Node, ...], shape: Shape) -> list[Node]:
    """Return the lines to continue: the fastest of each design, then other kernels, then repairable lines."""
    alive = [tip for tip in lines if tip.open or failures(tree, tip) <= REPAIRS]
    kernels = [(best, tip) for tip in alive if (best := tree.best_on(tip.round)) is not None]
    lasting = [(best, tip) for best, tip in kernels if tip.open or idle(tree, tip) < shape.patience]
    lasting.sort(key=lambda pair: (time_ms(pair[0]), pair[0].number))
    seen: set[tuple[str, ...]] = set()
    first: list[Node] = []
    rest: list[Node] = []
    for best, tip in lasting:
        (rest if design(best) in seen else first).append(tip)
        seen.add(design(best))
    broken = [tip for tip in alive if tree.best_on(tip.round) is None]
    broken.sort(key=lambda tip: (failures(tree, tip), tip.round))
    return [*first, *rest, *broken][: shape.width]
