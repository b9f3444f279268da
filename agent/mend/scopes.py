"""Resolution of a name at one place of a candidate's file, as far as the source determines it.

Follows names that are assigned once in the enclosing function, in outer functions, or in the file. Also
follows attributes of the enclosing class (`self.source`) and parameters of a function that is called once.
Sees through `dedent(text)` and `text.strip()`, which leave the code in a text unchanged.
"""

import ast
from collections.abc import Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.Module | ast.ClassDef | _Function
_MOST_STEPS = 8
_KEEPING_METHODS = frozenset({"strip", "lstrip", "rstrip"})
_KEEPING_CALLS = frozenset({"textwrap.dedent", "dedent", "inspect.cleandoc", "cleandoc"})


def resolved(tree: ast.Module, place: ast.AST, node: ast.expr | None) -> ast.expr | None:
    """Return the expression that `node` stands for at `place`, itself if not a name, or None if unknown."""
    scopes = _around(tree, place)
    for _ in range(_MOST_STEPS):
        if isinstance(node, ast.Name):
            node, scopes = _of_name(tree, scopes, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            node = _of_attribute(scopes, node.value.id, node.attr)
        elif isinstance(node, ast.Call) and _keeps_its_text(node):
            node = node.args[0] if node.args else node.func.value  # type: ignore[attr-defined]
        else:
            return node
    return None


def _around(tree: ast.Module, place: ast.AST) -> list[_Scope]:
    """Return the scopes that contain the place, innermost first."""
    found: list[_Scope] = []
    for node in ast.walk(tree):
        if isinstance(node, _Scope) and any(inner is place for inner in ast.walk(node)):
            found.append(node)
    # ast.walk visits outer nodes first.
    return found[::-1]


def _of_name(tree: ast.Module, scopes: list[_Scope], name: str) -> tuple[ast.expr | None, list[_Scope]]:
    for number, scope in enumerate(scopes):
        # Methods do not see the names in the class body.
        if isinstance(scope, ast.ClassDef) and number > 0:
            continue
        values = [value for target, value in _assignments(scope) if _is_name(target, name)]
        if isinstance(scope, _Function) and name in _parameters(scope):
            return (None, scopes) if values else _of_parameter(tree, scope, name)
        if values:
            return (values[0] if len(values) == 1 else None), scopes[number:]
    return None, scopes


def _of_parameter(tree: ast.Module, function: _Function, name: str) -> tuple[ast.expr | None, list[_Scope]]:
    """Return the argument that a function's only call passes for a parameter, and the scopes of that call."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _last_name(node.func) == function.name
    ]
    if len(calls) != 1:
        return None, []
    [call] = calls
    scopes = _around(tree, call)
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value, scopes
    names = _parameters(function)
    if isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    position = names.index(name) if name in names else len(call.args)
    if position < len(call.args) and not any(isinstance(given, ast.Starred) for given in call.args):
        return call.args[position], scopes
    return None, scopes


def _of_attribute(scopes: list[_Scope], owner: str, name: str) -> ast.expr | None:
    """Return the value of an attribute set once in the enclosing class, or in the class named `owner`."""
    classes = [node for node in _classes(scopes) if owner in ("self", "cls", node.name)]
    if not classes:
        return None
    values = [value for target, value in _assignments(classes[0]) if _is_name(target, name)]
    values += [
        node.value
        for node in ast.walk(classes[0])
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id in ("self", "cls")
        and target.attr == name
    ]
    return values[0] if len(values) == 1 else None


def _classes(scopes: list[_Scope]) -> Iterator[ast.ClassDef]:
    for scope in scopes:
        if isinstance(scope, ast.ClassDef):
            yield scope
        elif isinstance(scope, ast.Module):
            yield from (node for node in scope.body if isinstance(node, ast.ClassDef))


def _assignments(scope: _Scope) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets and values in the scope itself, without those of nested functions and classes."""
    pending: list[ast.AST] = list(scope.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            yield node.target, node.value
            # A second entry marks the name as having no single value, because something is added to it.
            if isinstance(node, ast.AugAssign):
                yield node.target, node.value
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    return [given.arg for given in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _keeps_its_text(node: ast.Call) -> bool:
    if len(node.args) == 1 and not node.keywords:
        return ast.unparse(node.func) in _KEEPING_CALLS
    return not node.args and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPING_METHODS


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
