"""Which literals of a candidate are the real sizes of its reference.

A kernel that has them written in is right at the real shape only, so a mismatch at smaller sizes proves
nothing against it. Contract: textual evidence, on the cautious side: a 512 that is a block size counts where
512 is also a size. It says nothing about sizes that are computed, such as `1 << 9`.
"""

import ast
import re
from collections.abc import Iterable, Iterator

from agent.python_source import syntax_tree

_C_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_C_INTEGER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F']+|\d[\d']*)(?:\.0*)?(?:[fF]|[uUlLzZ]{0,3})(?![\w.])")
_JUDGES_OWN = frozenset({"get_inputs", "get_init_inputs"})


def integers(candidate: str) -> Iterator[tuple[int, int]]:
    """Integer literals of a candidate with their lines: Python code, and C++ or CUDA inside its strings.

    Left out: comments, docstrings, C string literals, and what only serves the candidate's own `get_inputs`
    and `get_init_inputs`, which the judge never calls. A float without a fraction (`512.0f`) counts.
    """
    try:
        tree = syntax_tree(candidate)
    except SyntaxError:
        return
    ignored = {id(part) for node in _unused(tree) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in ignored or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str):
            yield from _in_text(node)
        elif type(node.value) is int or (isinstance(node.value, float) and node.value.is_integer()):
            yield int(node.value), node.lineno


def _in_text(node: ast.Constant) -> Iterator[tuple[int, int]]:
    text = str(node.value)
    code = _C_COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    last = node.end_lineno or node.lineno
    # A line break after the opening quotes that is escaped stands in the source but not in the value.
    escaped = max(0, last - node.lineno - text.count("\n"))
    for match in _C_INTEGER.finditer(code):
        digits = match[1].replace("'", "")
        value = int(digits, 16) if digits[:2].lower() == "0x" else int(digits)
        yield value, min(node.lineno + escaped + code.count("\n", 0, match.start()), last)


def _unused(tree: ast.Module) -> Iterable[ast.AST]:
    """Docstrings, the candidate's own inputs with the sizes that only they use, and its `__main__` part."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            yield node.body[0]
    own = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name in _JUDGES_OWN]
    own_main = [s for s in tree.body if isinstance(s, ast.If) and "__main__" in ast.dump(s.test)]
    yield from own
    yield from own_main
    assignments = [s for s in tree.body if isinstance(s, (ast.Assign, ast.AnnAssign))]
    live = [s for s in tree.body if s not in own and s not in own_main and s not in assignments]
    read = {name for statement in live for name in _loaded(statement)}
    read_by_own = {name for statement in (*own, *own_main) for name in _loaded(statement)}
    for assignment in reversed(assignments):
        names = _stored(assignment)
        if names & read_by_own and not names & read:
            read_by_own |= _loaded(assignment)
            yield assignment
        else:
            read |= _loaded(assignment)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
