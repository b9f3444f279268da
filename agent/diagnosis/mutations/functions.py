"""Mutations that put another operator of the same form in place of one: unary, binary or a comparison."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, invoke
from agent.diagnosis.mutations.groups import Group, Groups, variant
from agent.diagnosis.wrong_references.rules import Facts, Variant
from agent.diagnosis.wrong_references.steps import operand_like

Tensor = torch.Tensor
PAIRWISE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "rsub": lambda a, b: b - a,
    "mul": torch.mul,
    "div": torch.div,
    "rdiv": lambda a, b: b / a,
    "maximum": lambda a, b: torch.where(a >= b, a, b),
    "minimum": lambda a, b: torch.where(a <= b, a, b),
    "pow": torch.pow,
}
CONDITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gt": torch.gt, "ge": torch.ge, "lt": torch.lt, "le": torch.le, "eq": torch.eq, "ne": torch.ne,
}  # fmt: skip
JOINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor,
    "first alone": lambda a, b: a | torch.zeros_like(b), "second alone": lambda a, b: b | torch.zeros_like(a),
}  # fmt: skip
ALONE: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "square": torch.square,
    "abs": torch.abs, "neg": torch.neg, "reciprocal": torch.reciprocal, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "relu": torch.relu, "sign": torch.sign, "expm1": torch.expm1, "log1p": torch.log1p,
    "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "trunc": torch.trunc, "softplus": torch.nn.functional.softplus, "silu": torch.nn.functional.silu,
}  # fmt: skip
TWINS = (
    ("triu_indices", "tril_indices", "layout-misread"),
    ("triu", "tril", "transposed-operand"),
    ("argmax", "argmin", "min-for-max"),
    ("cummax", "cummin", "wrong-combine"),
    ("cumsum", "cumprod", "wrong-combine"),
    ("cumsum", "logcumsumexp", "wrong-combine"),
    ("floor_divide", "remainder", "wrong-index-base"),
    ("amax", "amin", "wrong-combine"),
    ("any", "all", "wrong-combine"),
    ("scatter", "scatter_add", "scatter-overwrites"),
    ("index_copy", "index_add", "scatter-overwrites"),
    ("isnan", "isinf", "mask-inverted"),
    ("_softmax", "_log_softmax", "log-missing"),
    ("sigmoid", "tanh", "wrong-activation"),
)
"""Pairs of operators with the same arguments, and the kind of fault if one is taken for the other."""
_SIGNS = {("add", "sub"), ("add", "rsub"), ("sub", "rsub"), ("sub", "add"), ("rsub", "add"), ("rsub", "sub")}
_ROUNDING = {"floor", "ceil", "round", "trunc"}


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    for group in groups.computing():
        name = group.name
        if name in PAIRWISE and "other" in group.first.given | {"exponent": 0}:
            yield from _pairwise(group)
        elif name in CONDITIONS:
            for other, function in CONDITIONS.items():
                if other != name:
                    words = (
                        f"with the comparison {other} for {name} in {group.label}: its bound is off by one"
                    )
                    words = words if other[0] == name[0] else f"with the comparison {other} for {name}"
                    kind = "mask-shifted" if other[0] == name[0] else "mask-inverted"
                    yield _of_two(group, kind, words, function, 6)
        elif name in ("logical_and", "logical_or", "bitwise_and", "bitwise_or"):
            for other, function in JOINED.items():
                if other not in name:
                    words = f"with {other} of the conditions of {group.label}"
                    kind = "mask-ignored" if "alone" in other else "wrong-combine"
                    yield _of_two(group, kind, words, function, 6)
        yield from _left_out(group)
        yield from _twins(group)
        if name in ALONE:
            yield from _alone(group)


def _twins(group: Group) -> Iterator[Variant]:
    name, overload = group.first.func._schema.name.split("::")[-1], group.first.func._overloadname
    for one, other, kind in TWINS:
        if name in (one, other):
            twin = other if name == one else one
            func = getattr(getattr(torch.ops.aten, twin), overload, None)
            if func is not None:
                words = f"with {twin.strip('_')} for {name.strip('_')} in {group.label}"
                yield variant(kind, words, group.rewritten(lambda call, f=func: lambda g: _invoked(f, g)), 6)  # type: ignore[misc]


def _invoked(func: Any, given: Arguments) -> Any:
    names = [argument.name for argument in func._schema.arguments]
    return invoke(func, {name: given[name] for name in names})


def _of_two(
    group: Group, kind: str, words: str, function: Callable[[Tensor, Tensor], Tensor], rank: int
) -> Variant:
    def run(given: Arguments) -> Tensor:
        return function(given["self"], given["other"])

    return variant(kind, words, group.rewritten(lambda call: run), rank)


def _pairwise(group: Group) -> Iterator[Variant]:
    name = group.name
    if not isinstance(group.first.given.get("self"), Tensor):
        return
    key = "exponent" if name == "pow" else "other"
    if key not in group.first.given:
        return
    alpha = group.first.given.get("alpha", 1)
    if name == "mul" and group.first.given["self"] is group.first.given["other"]:
        for words, alone in (("the absolute value", torch.abs), ("the value itself", torch.clone)):
            said = f"with {words} for the square in {group.label}: not squared"
            run = lambda given, f=alone: f(given["self"])  # noqa: E731
            yield variant("square-omitted", said, group.rewritten(lambda call, r=run: r), 5)  # type: ignore[misc]
    for other, function in PAIRWISE.items():
        if other == name:
            continue
        kind = "sign-error" if (name, other) in _SIGNS else "wrong-combine"
        kind = "wrong-divisor" if {name, other} <= {"mul", "div", "rdiv"} else kind
        kind = "operands-swapped" if {name, other} in ({"div", "rdiv"}, {"sub", "rsub"}) else kind

        def run(given: Arguments, f: Callable[[Tensor, Tensor], Tensor] = function) -> Tensor:
            return f(given["self"], given[key] * alpha if alpha != 1 else given[key])

        words = f"with {other} for {name} in {group.label}"
        yield variant(kind, words, group.rewritten(lambda call, r=run: r), 6)  # type: ignore[misc]


def _left_out(group: Group) -> Iterator[Variant]:
    """Yield variants with the operator left out in every step of a loop; a rule covers the single call."""
    main = operand_like(group.first)
    if main is not None and not group.first.func._schema.is_mutable:
        words = f"without {group.label}: that operator is missing"
        kind = roles.LEFT_OUT.get(group.name, "operator-missing")
        yield variant(kind, words, group.rewritten(lambda call: lambda g: g[main].clone()), 5)


def _alone(group: Group) -> Iterator[Variant]:
    for other, function in ALONE.items():
        if other != group.name:
            kind = "wrong-rounding" if {other, group.name} <= _ROUNDING else "wrong-activation"
            words = f"with {other} for {group.name} in {group.label}"
            run = lambda given, f=function: f(given["self"])  # noqa: E731
            yield variant(kind, words, group.rewritten(lambda call, r=run: r), 7)  # type: ignore[misc]
