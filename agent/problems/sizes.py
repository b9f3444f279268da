"""The sizes of a reference: integers that its module level assigns, where they stand, and how to change them.

Contract: purely textual; a rewritten source differs from the original in the digits of the sizes alone.
Integers inside functions and classes are no sizes, nor are values computed from names: those follow.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from operator import add, floordiv, lshift, mul, sub
from typing import NamedTuple

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.LShift: lshift,
    ast.Pow: pow,
}


class Size(NamedTuple):
    """One integer, or an expression of literals that folds to one: `16`, `4 * 1024`, `1 << 14`."""

    name: str
    """The assigned name; with an index where it stands in a list or tuple, `shape[2]`."""
    value: int
    span: tuple[int, int]
    """Start and end in the UTF-8 bytes of the source."""

    @property
    def variable(self) -> str:
        return self.name.partition("[")[0]


def module_sizes(source: str) -> tuple[Size, ...]:
    """Every positive integer assigned at module level, in source order, annotated assignments included.

    Raises SyntaxError where the source does not parse.
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement in ast.parse(source).body:
        for name, node in _assigned(statement):
            for full_name, element in _elements(name, node):
                value = _folded(element)
                if value is not None and value > 0:
                    first = starts[element.lineno - 1] + element.col_offset
                    last = starts[(element.end_lineno or 1) - 1] + (element.end_col_offset or 0)
                    found.append(Size(full_name, value, (first, last)))
    return tuple(found)


def rewritten(source: str, new_values: Mapping[int, int]) -> str:
    """`source` with every size of value `old` written as `new_values[old]`; other sizes stay as they are."""
    text = source.encode()
    for size in reversed(module_sizes(source)):
        new = new_values.get(size.value, size.value)
        if new != size.value:
            text = text[: size.span[0]] + str(new).encode() + text[size.span[1] :]
    return text.decode()


def constructor_sizes(source: str) -> frozenset[int]:
    """The values of the sizes that `get_init_inputs` reads, also through names computed from them."""
    statements = ast.parse(source).body
    wanted: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.FunctionDef) and statement.name == "get_init_inputs":
            wanted |= _names(statement)
    for statement in reversed(statements):
        for name, node in _assigned(statement):
            if name in wanted:
                wanted |= _names(node)
    return frozenset(size.value for size in module_sizes(source) if size.variable in wanted)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    elif isinstance(statement, ast.Assign):
        targets, value = list(statement.targets), statement.value  # type: ignore[arg-type]
    else:
        return
    for target in targets:
        yield from _paired(target, value)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names with what they are bound to; `M, N = 64, 128` gives two pairs."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, (ast.Tuple, ast.List)) and len(target.elts) == len(value.elts):
            for part, element in zip(target.elts, value.elts, strict=True):
                yield from _paired(part, element)
        else:
            for part in target.elts:
                yield from _paired(part, value)


def _elements(name: str, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for index, element in enumerate(node.elts):
            yield from _elements(f"{name}[{index}]", element)
    else:
        yield name, node


def _folded(node: ast.expr) -> int | None:
    """The value of an expression made of integer literals only, None for any other."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _folded(node.left), _folded(node.right)
        if left is None or right is None or right < 0:
            return None
        if (
            isinstance(node.op, (ast.Pow, ast.LShift))
            and right > 64
            or isinstance(node.op, ast.FloorDiv)
            and not right
        ):
            return None
        return _OPERATORS[type(node.op)](left, right)
    return None


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
