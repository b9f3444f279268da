"""Find the literals of a candidate that equal real sizes of its reference.

A kernel with hard-coded sizes is correct only at the real shape, so a mismatch at smaller sizes proves
nothing against it. The evidence is textual and errs on the cautious side. A 512 that is a block size counts
if 512 is also a size; so do products and shifts of literals, `8 * 64` and `1 << 9`. Sizes computed from names
or calls are not covered.
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator

from agent.python_source import syntax_tree

_C_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_C_INTEGER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F']+|\d[\d']*)(?:\.0*)?(?:[fF]|[uUlLzZ]{0,3})(?![\w.])")
_JOINED = re.compile(r"\s*(\*|<<)\s*")
"""Operators that join literals into one number."""
_MOST_BITS = 62
"""Maximum bits of a number that counts as a size."""
_JUDGES_OWN = frozenset({"get_inputs", "get_init_inputs"})


def integers(candidate: str) -> Iterator[tuple[int, int]]:
    """Yield the integer literals of a candidate with their lines, in Python and in C++ or CUDA strings.

    Comments, docstrings, C string literals, and code that only serves the candidate's own `get_inputs` and
    `get_init_inputs` are left out: the judge never calls these two functions. A float without a fraction
    (`512.0f`) counts.
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
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and id(node) not in ignored and (value := _computed(node)) is not None:
            yield value, node.lineno


def _in_text(node: ast.Constant) -> Iterator[tuple[int, int]]:
    text = str(node.value)
    code = _C_COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    last = node.end_lineno or node.lineno
    # An escaped line break after the opening quotes is in the source but not in the value.
    escaped = max(0, last - node.lineno - text.count("\n"))
    for value, at in _c_integers(code):
        yield value, min(node.lineno + escaped + code.count("\n", 0, at), last)


def _c_integers(code: str) -> Iterator[tuple[int, int]]:
    """Yield literals, and the values of joined ones, with their positions."""
    chain: list[int] = []
    """Factors of the current number; a shift by n is the factor 2**n."""
    begun = end = 0
    for match in _C_INTEGER.finditer(code):
        digits = match[1].replace("'", "")
        value = int(digits, 16) if digits[:2].lower() == "0x" else int(digits)
        yield value, match.start()
        joined = _JOINED.fullmatch(code, end, match.start()) if chain else None
        if joined is None:
            if len(chain) > 1:
                yield math.prod(chain), begun
            chain, begun = [], match.start()
        chain.append(1 << min(value, _MOST_BITS) if joined and joined[1] == "<<" else value)
        end = match.end()
    if len(chain) > 1:
        yield math.prod(chain), begun


def _computed(node: ast.expr) -> int | None:
    """Return the value of an expression of literals only; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _computed(node.left), _computed(node.right)
    if left is None or right is None:
        return None
    match node.op:
        case ast.Mult():
            value = left * right
        case ast.LShift() if 0 <= right <= _MOST_BITS:
            value = left << right
        case ast.Pow() if 0 <= right <= _MOST_BITS:
            value = left**right
        case _:
            return None
    return value if abs(value) >> _MOST_BITS == 0 else None


def _unused(tree: ast.Module) -> Iterable[ast.AST]:
    """Yield docstrings, the candidate's input functions with their own sizes, and the `__main__` part."""
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
