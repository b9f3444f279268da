"""Policy with a single line: every round continues the one before, until patience ends."""

from agent.records import Move
from agent.search.shape import Shape, is_reached
from agent.search.tree import Tree


def line(tree: Tree, shape: Shape) -> Move | None:
    if tree.open or is_reached(tree, shape) or (tree.best and tree.idle >= shape.patience):
        return None
    return Move(after=max(tree.nodes, default=None))
