"""Rewrites of one operator call, and how two of them make one: an answer can have two faults in one operator.

A rewrite that changes what the operator is given comes before any other, one that changes its result after
any other. Of two that compute the operator by its parts both are kept where they change different parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.diagnosis.graph import Arguments, Rewrite, invoke


@dataclass(frozen=True)
class Before:
    """The operator with other arguments; a function is given the argument it replaces."""

    func: Any
    changes: Mapping[str, Any]

    def of(self, given: Arguments) -> Arguments:
        new = {name: c(given[name]) if callable(c) else c for name, c in self.changes.items()}
        return given | new

    def __call__(self, given: Arguments) -> Any:
        made = self.of(given)
        if self.func._schema.is_mutable:
            # What stands for the first argument may be a value that others read as well.
            name = next(iter(made))
            made[name] = made[name].clone()
        return invoke(self.func, made)


@dataclass(frozen=True)
class After:
    """The operator with its result changed; of several results the first."""

    func: Any
    change: Callable[[Any], Any]

    def of(self, result: Any) -> Any:
        return (self.change(result[0]), *result[1:]) if isinstance(result, tuple) else self.change(result)

    def __call__(self, given: Arguments) -> Any:
        return self.of(invoke(self.func, given))


@dataclass(frozen=True)
class Last:
    """The operator's last step done otherwise: it is run without some arguments, which `change` brings in."""

    func: Any
    without: Mapping[str, Any]
    change: Callable[[Any, Arguments], Any]
    """From the first result and the arguments to the first result."""

    def of(self, run: Rewrite, given: Arguments) -> Any:
        result = run({**given, **self.without})
        if isinstance(result, tuple):
            return (self.change(result[0], given), *result[1:])
        return self.change(result, given)

    def __call__(self, given: Arguments) -> Any:
        return self.of(lambda arguments: invoke(self.func, arguments), given)


@dataclass(frozen=True)
class Form:
    """The operator computed by named parts, of which some are changed."""

    compute: Callable[[Arguments, Any], Any]
    """From the operator's arguments and the parts, a named tuple."""
    own: Any
    changes: Mapping[str, Any]

    def __call__(self, given: Arguments) -> Any:
        return self.compute(given, self.own._replace(**self.changes))


def composed(one: Rewrite, other: Rewrite) -> Rewrite | None:
    """Both of one call; None where that is not defined."""
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
    """`one` around `other` where it can be."""
    if isinstance(one, Before):
        return lambda given: other(one.of(given))
    if isinstance(one, Last) and not isinstance(other, Before | Last):
        return lambda given: one.of(other, given)
    if isinstance(one, After) and not isinstance(other, Before | Last):
        return lambda given: one.of(other(given))
    return None
