"""Properties that `ModelNew` shares with `Model`: constructor arguments, their values, the name of the input.

They are read from the reference's text, which is not run. A reference whose text does not show them is
refused with the reason.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.python_source import syntax_tree
from agent.records import Problem


class Unreadable(Exception):
    """The reference is valid, but its text does not show the properties that an answer needs."""


@dataclass(frozen=True)
class Argument:
    """A constructor argument with its value in the problem."""

    name: str
    value: object
    default: str | None
    """Default as a self-contained expression, or None if there is no default."""
    keyword_only: bool = False


@dataclass(frozen=True)
class Reference:
    arguments: tuple[Argument, ...]
    constants: frozenset[int]
    """Integers that appear literally in calls and assignments of Model, or at module level."""
    input_name: str
    """Name of the first argument of `forward`."""


def read(problem: Problem) -> Reference:
    """Read the reference of a problem. Raises Unreadable."""
    tree = syntax_tree(problem.source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"]
    if not classes:
        raise Unreadable("the reference's text has no class Model at module level")
    model = classes[-1]
    constants = dict(_assigned(tree))
    return Reference(
        arguments=_arguments(_method(model, "__init__"), problem, constants),
        constants=frozenset(_integers([*constants.values(), *_stated(model)])),
        input_name=_input_name(_method(model, "forward")),
    )


def _method(model: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    found = [node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1] if found else None


def _arguments(
    init: ast.FunctionDef | None, problem: Problem, constants: Mapping[str, object]
) -> tuple[Argument, ...]:
    given = problem.trace.init_inputs
    if init is None:
        if given:
            raise Unreadable(
                "Model inherits its constructor, so the names of its arguments are not in the text"
            )
        return ()
    if init.args.vararg or init.args.kwarg:
        raise Unreadable("the constructor of Model takes * or ** arguments")
    positional = [*init.args.posonlyargs, *init.args.args][1:]
    required: list[ast.expr | None] = [None] * (len(positional) - len(init.args.defaults))
    defaults = [*required, *init.args.defaults]
    arguments = []
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        value = None if default is None else _value(default, constants)
        arguments.append(
            Argument(
                name=argument.arg,
                value=given[place] if place < len(given) else value,
                default=None if default is None else repr(value),
            )
        )
    for argument, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True):
        value = None if default is None else _value(default, constants)
        arguments.append(Argument(argument.arg, value, repr(value), keyword_only=True))
    return tuple(arguments)


def _value(expression: ast.expr, constants: Mapping[str, object]) -> object:
    """Return the value of a literal, or of a name that the module binds to a literal."""
    if isinstance(expression, ast.Name) and expression.id in constants:
        return constants[expression.id]
    try:
        return ast.literal_eval(expression)
    except ValueError:
        raise Unreadable(f"a default of Model's constructor is computed: {ast.unparse(expression)}") from None


def _input_name(forward: ast.FunctionDef | None) -> str:
    if forward is None:
        return "x"
    names = [argument.arg for argument in (*forward.args.posonlyargs, *forward.args.args)][1:]
    if len(names) != 1 or forward.args.kwonlyargs or forward.args.vararg or forward.args.kwarg:
        raise Unreadable("forward takes more than one argument")
    return names[0]


def _assigned(tree: ast.Module) -> Iterator[tuple[str, object]]:
    """Yield the module-level names that are bound to a literal, with their values."""
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        value = _literal(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value


def _stated(model: ast.ClassDef) -> Iterator[object]:
    """Yield the literals that Model passes or assigns unchanged. Terms of an expression are left out."""
    for node in ast.walk(model):
        if isinstance(node, ast.Call):
            yield from (_literal(argument) for argument in node.args)
            yield from (_literal(keyword.value) for keyword in node.keywords)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield _literal(node.value)


def _literal(expression: ast.expr | None) -> object:
    try:
        return None if expression is None else ast.literal_eval(expression)
    except ValueError:
        return None


def _integers(values: Sequence[object]) -> Iterator[int]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _integers(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield value
