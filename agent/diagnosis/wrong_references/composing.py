"""Rewrites of one operator call, and their composition: a candidate can have two faults in one operator.

A rewrite of the operator's arguments runs before any other, and a rewrite of its result runs after any other.
Two rewrites that compute the operator by its parts compose if they change different parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.diagnosis.graph import Arguments, Rewrite, invoke


@dataclass(frozen=True)
class Before:
    """Operator with other arguments; a callable receives the argument that it replaces."""

    func: Any
    changes: Mapping[str, Any]

    def of(self, given: Arguments) -> Arguments:
        new = {name: c(given[name]) if callable(c) else c for name, c in self.changes.items()}
        return given | new

    def __call__(self, given: Arguments) -> Any:
        made = self.of(given)
        if self.func._schema.is_mutable:
            # Other calls may also read the value that stands for the first argument.
            name = next(iter(made))
            made[name] = made[name].clone()
        return invoke(self.func, made)


@dataclass(frozen=True)
class After:
    """Operator whose result, or the first of several results, is changed."""

    func: Any
    change: Callable[[Any], Any]

    def of(self, result: Any) -> Any:
        return (self.change(result[0]), *result[1:]) if isinstance(result, tuple) else self.change(result)

    def __call__(self, given: Arguments) -> Any:
        return self.of(invoke(self.func, given))


@dataclass(frozen=True)
class Last:
    """Operator with another last step: it runs without some arguments, which `change` applies afterwards."""

    func: Any
    without: Mapping[str, Any]
    change: Callable[[Any, Arguments], Any]
    """Function of the first result and the arguments that returns the new first result."""

    def of(self, run: Rewrite, given: Arguments) -> Any:
        result = run({**given, **self.without})
        if isinstance(result, tuple):
            return (self.change(result[0], given), *result[1:])
        return self.change(result, given)

    def __call__(self, given: Arguments) -> Any:
        return self.of(lambda arguments: invoke(self.func, arguments), given)


@dataclass(frozen=True)
class Form:
    """Operator computed from named parts, some of which are changed."""

    compute: Callable[[Arguments, Any], Any]
    """Function of the operator's arguments and the parts, a named tuple, that returns the result."""
    own: Any
    changes: Mapping[str, Any]

    def __call__(self, given: Arguments) -> Any:
        return self.compute(given, self.own._replace(**self.changes))


def composed(one: Rewrite, other: Rewrite) -> Rewrite | None:
    """Return the composition of two rewrites of one call; None if it is undefined."""
    if isinstance(one, Form) and isinstance(other, Form):
        if one.compute is not other.compute or one.changes.keys() & other.changes.keys():
            return None
        return replace(one, changes={**one.changes, **other.changes})
    for first, second in ((one, other), (other, one)):
        both = _nested(first, second)
        if both is not None:
            return both
    return None


def _nested(one: Rewrite, other: Rewrite) -> Rewrite | None:
    """Return `one` applied around `other`, or None if the two do not nest."""
    if isinstance(one, Before):
        return lambda given: other(one.of(given))
    if isinstance(one, Last) and not isinstance(other, Before | Last):
        return lambda given: one.of(other, given)
    if isinstance(one, After) and not isinstance(other, Before | Last):
        return lambda given: one.of(other(given))
    return None
