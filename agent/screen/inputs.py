"""Compare a candidate's own `get_inputs` and `get_init_inputs` with those of the reference.

They are compared as text after folding in module constants and single assignments. `device=` and `.cuda()`
are ignored, because the judge chooses the device anyway. Nothing runs, so two spellings of one value can
still count as different. A difference is therefore a warning, never a refusal.
"""

import ast
import copy

from agent.python_source import syntax_tree
from agent.screen.seen import Seen

FUNCTIONS = ("get_inputs", "get_init_inputs")


def differing_inputs(reference_source: str, tree: ast.Module) -> list[Seen]:
    """Return a warning for each of the two functions that the candidate defines differently."""
    reference = syntax_tree(reference_source)
    theirs, ours = _functions(tree), _functions(reference)
    return [
        Seen(
            "own-inputs-differ",
            f"The answer's own {name} differs from the reference's; the judge always uses the reference's.",
            theirs[name].lineno,
            "warning",
        )
        for name in FUNCTIONS
        if name in theirs and name in ours and _normal(theirs[name], tree) != _normal(ours[name], reference)
    ]


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _normal(function: ast.FunctionDef, module: ast.Module) -> str:
    """Return the statements of the function after constant folding, as dumped syntax trees."""
    values: dict[str, ast.expr] = {}
    for node in module.body:
        _assign(node, values)
    folded: list[str] = []
    for statement in function.body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring or _assign(statement, values):
            continue
        folded.append(ast.dump(_Fold(values).visit(copy.deepcopy(statement))))
    return "\n".join(folded)


def _assign(node: ast.stmt, values: dict[str, ast.expr]) -> bool:
    """Record `name = expression`, also for a tuple of names. Return True if `node` was such a statement."""
    target, value = None, None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign):
        target, value = node.target, node.value
    if value is None or target is None:
        return False
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    if not all(isinstance(name, ast.Name) for name, _ in pairs):
        return False
    new = {
        name.id: _Fold(values).visit(copy.deepcopy(value))
        for name, value in pairs
        if isinstance(name, ast.Name)
    }
    values.update(new)
    return True


class _Fold(ast.NodeTransformer):
    """Transformer that replaces names by values, computes integer arithmetic, and drops devices."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        """Turn a tuple into a list: as sizes, they mean the same to torch."""
        folded = self.generic_visit(node)
        return ast.List(elts=folded.elts, ctx=ast.Load()) if isinstance(folded, ast.Tuple) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            value = _computed(node.op, left.value, right.value)
            return node if value is None else ast.Constant(value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            return node.func.value
        node.keywords = [word for word in node.keywords if word.arg != "device"]
        return node


def _computed(operator: ast.operator, left: object, right: object) -> int | None:
    if not (isinstance(left, int) and isinstance(right, int)):
        return None
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv) and right:
        return left // right
    return None
