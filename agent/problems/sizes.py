"""Sizes of a reference: integers that can change without changing `Model`, and how to change them.

The analysis is purely textual. A rewritten source differs from the original only in the digits of the sizes,
and in a `get_init_inputs` that also passes changed defaults of the constructor. Values computed from names
are not sizes: they change with the sizes that they are computed from.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from operator import add, floordiv, lshift, mul, sub
from typing import NamedTuple

from agent.python_source import syntax_tree

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
    """Unique name: the assigned name (`shape[2]` within a list or tuple), the function with a number for an
    integer inside it (`get_inputs[0]`), or the parameter for a default (`get_inputs(batch)`,
    `Model(image_size)`)."""
    value: int
    span: tuple[int, int] | None
    """Start and end in the UTF-8 bytes of the source; None for a default of the constructor, which is not
    edited in place."""


class _Source:
    """A source as a tree, with the positions of its nodes in bytes."""

    def __init__(self, source: str) -> None:
        self.text = source
        self.body = syntax_tree(source).body
        self._starts = [0]
        for line in source.encode().splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def size(self, name: str, node: ast.expr) -> Iterator[Size]:
        value = _folded(node)
        if value is not None and value > 0:
            first = self._starts[node.lineno - 1] + node.col_offset
            last = self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
            yield Size(name, value, (first, last))

    def function(self, name: str) -> ast.FunctionDef | None:
        return next((s for s in self.body if isinstance(s, ast.FunctionDef) and s.name == name), None)


def sizes(source: str) -> tuple[Size, ...]:
    """Return every positive integer that may be a size, each under a unique name.

    Sizes occur at module level, inside `get_inputs` and `get_init_inputs`, and as defaults of their
    parameters, because they are called without arguments. Defaults of `Model.__init__` count if
    `get_init_inputs` does not override them. Integers inside `Model` do not: a candidate repeats them.
    Raises SyntaxError if the source does not parse.
    """
    parsed = _Source(source)
    found = list({size.span: size for size in reversed(list(_at_module_level(parsed)))}.values())[::-1]
    for function in ("get_inputs", "get_init_inputs"):
        definition = parsed.function(function)
        inside = [size for node in _integers(definition) for size in parsed.size("", node)]
        found += [size._replace(name=f"{function}[{number}]") for number, size in enumerate(inside)]
        for parameter, default in _own_defaults(definition):
            for name, element in _elements(parameter, default):
                found += parsed.size(f"{function}({name})", element)
    defaults = ((name, _folded(node)) for name, node in _defaults(parsed))
    found += [Size(f"Model({name})", value, None) for name, value in defaults if value and value > 0]
    return _renamed(found)


def rewritten(source: str, new_values: Mapping[str, int]) -> str:
    """Return `source` with the named sizes changed.

    `get_init_inputs` passes a changed default of the constructor, so that everything built from the same
    arguments has the changed value too.
    """
    changed = [size for size in sizes(source) if new_values.get(size.name, size.value) != size.value]
    text = source.encode()
    for span, name in sorted(((s.span, s.name) for s in changed if s.span is not None), reverse=True):
        text = text[: span[0]] + str(new_values[name]).encode() + text[span[1] :]
    handed = {size.name: new_values[size.name] for size in changed if size.span is None}
    return text.decode() + (_handing_over(_Source(source), handed) if handed else "")


def constructor_sizes(source: str) -> frozenset[str]:
    """Return the names of sizes that reach the constructor, also through names computed from them."""
    parsed = _Source(source)
    function = parsed.function("get_init_inputs")
    wanted = _names(function) if function else set()
    for statement in reversed(parsed.body):
        for name, node in _assigned(statement):
            if name in wanted:
                wanted |= _names(node)
    spans = {size.span for size in _at_module_level(parsed) if size.name.partition("[")[0] in wanted}
    inside = ("get_init_inputs[", "get_init_inputs(", "Model(")
    return frozenset(s.name for s in sizes(source) if s.span in spans or s.name.startswith(inside))


def _at_module_level(parsed: _Source) -> Iterator[Size]:
    """Yield one size for each name: `a = b = 4` gives two of the same span."""
    for statement in parsed.body:
        for name, node in _assigned(statement):
            for full_name, element in _elements(name, node):
                yield from parsed.size(full_name, element)


def _renamed(found: list[Size]) -> tuple[Size, ...]:
    """Append a number to the name of a size that is assigned more than once."""
    seen: dict[str, int] = {}
    renamed = []
    for size in found:
        seen[size.name] = seen.get(size.name, 0) + 1
        again = f"{size.name}#{seen[size.name]}" if seen[size.name] > 1 else size.name
        renamed.append(size._replace(name=again))
    return tuple(renamed)


def _integers(function: ast.FunctionDef | None) -> Iterator[ast.expr]:
    """Yield the largest expressions of integer literals inside a function, in source order.

    A literal in arithmetic with a name or a call (`2 * n - 1`, `torch.rand(n) * 100`) is not a size.
    """

    def within(node: ast.AST) -> Iterator[ast.expr]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and _folded(child) is not None:
                yield child
            elif isinstance(child, ast.BinOp):
                sides = (s for s in (child.left, child.right) if _folded(s) is None)
                for side in sides:
                    yield from within(ast.Expr(side))
            elif not isinstance(child, (ast.arguments, ast.Slice)):
                yield from within(child)

    for statement in function.body if function else ():
        yield from within(statement)


def _own_defaults(function: ast.FunctionDef | None) -> Iterator[tuple[str, ast.expr]]:
    """Yield every parameter of a function that has a default, with the default, in source order."""
    if function is None:
        return
    arguments = function.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    defaults = arguments.defaults
    yield from zip((p.arg for p in by_position[len(by_position) - len(defaults) :]), defaults, strict=True)
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield parameter.arg, default


def _defaults(parsed: _Source) -> Iterator[tuple[str, ast.expr]]:
    """Yield positional constructor parameters that `get_init_inputs` leaves to their defaults, in order."""
    given = _given(parsed.function("get_init_inputs"))
    models = [s for s in parsed.body if isinstance(s, ast.ClassDef) and s.name == "Model"]
    made = [s for m in models for s in m.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
    if given is None or len(made) != 1:
        return
    arguments = made[0].args
    parameters = [*arguments.posonlyargs, *arguments.args][1:]
    without = len(parameters) - len(arguments.defaults)
    if given < without:
        return
    for parameter, default in list(zip(parameters[without:], arguments.defaults, strict=False))[
        given - without :
    ]:
        yield parameter.arg, default


def _given(function: ast.FunctionDef | None) -> int | None:
    """Return how many arguments a function returns as one literal list; None if that cannot be read."""
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)] if function else []
    if len(returns) != 1 or not isinstance(returns[0].value, (ast.List, ast.Tuple)):
        return None
    elements = returns[0].value.elts
    return None if any(isinstance(element, ast.Starred) for element in elements) else len(elements)


def _handing_over(parsed: _Source, values: Mapping[str, int]) -> str:
    """Return code in which `get_init_inputs` also passes defaults, up to the last one that changed."""
    handed, pending = [], []
    for name, node in _defaults(parsed):
        new = values.get(f"Model({name})")
        pending.append(ast.get_source_segment(parsed.text, node) or "" if new is None else str(new))
        if new is not None:
            handed += pending
            pending = []
    return (
        "\n\n_get_init_inputs = get_init_inputs\n\n\ndef get_init_inputs():\n"
        f"    return [*_get_init_inputs(), {', '.join(handed)}]\n"
    )


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
    """Yield names with their values; `M, N = 64, 128` gives two pairs."""
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
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _folded(node) is None:
        node = next((side for side in (node.left, node.right) if isinstance(side, ast.List)), node)
    if isinstance(node, (ast.Tuple, ast.List)):
        for index, element in enumerate(node.elts):
            yield from _elements(f"{name}[{index}]", element)
    else:
        yield name, node


def _folded(node: ast.expr) -> int | None:
    """Return the value of an expression of integer literals only, None for any other."""
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
