"""A module's graph with its children's graphs in place of their calls, for pairs that stand in two forwards.

A layer's last sum and the next layer's norm are such a pair: the graph of what holds both layers has it once
the two forwards are written out in it. A child's graph is its forward in calls of the form that was traced.
So a child is written out where the call gives it the values that its trace took for constants, and tensors
for the rest: nodes of which that is not known for every later call keep the child as a call.
"""

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from agent.kernels.fusing.calls import Call, is_plain
from agent.kernels.fusing.found import CALL, NAME, OWNER, Found
from agent.kernels.fusing.sites import has_hooks, is_alone, sites

_COMBINING = (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.iadd)
Forms = Mapping[nn.Module, tuple[Call, fx.Graph]]
"""How each traced module was called, and its own graph."""


Number = tuple[int, ...]
"""Of a call that is written out: that of the call in which it stands, and one more; () for the module's."""


@dataclass(frozen=True)
class Joined:
    """A graph that holds the forwards of several modules."""

    graph: fx.Graph
    calls: Mapping[Number, str]
    """Paths of the modules whose forwards are in it beside its own."""

    def holder(self, found: Found) -> Number:
        """The innermost call that leads to all of a pair."""
        numbers = _numbers(found)
        shared = 0
        while all(len(one) > shared and one[shared] == numbers[0][shared] for one in numbers):
            shared += 1
        return numbers[0][:shared]

    def owners(self, found: Found) -> set[str]:
        """Paths of the modules through which a pair is reached, and of those that have it."""
        numbers = _numbers(found)
        return {self.calls[one[:depth]] for one in numbers for depth in range(1, len(one) + 1)}


def joined(module: nn.Module, forms: Forms) -> Joined | None:
    """The module's graph with those children in it that share a pair; None where none does."""
    whole = _joined(module, forms, None)
    if not whole.calls:
        return None
    pairs = [(whole.holder(site.found), whole.owners(site.found)) for site in sites(whole.graph, module).fit]
    wanted: set[str] = set()
    for holder, owners in pairs:
        if holder == ():
            wanted |= owners
    if not wanted:
        return None
    grown = True
    while grown:
        # Whose own children share pairs needs those written out too: it is not called any more.
        more = {
            owner for holder, owners in pairs if holder and whole.calls[holder] in wanted for owner in owners
        } - wanted
        grown = bool(more)
        wanted |= more
    found = _joined(module, forms, wanted)
    # A child that shares no pair may give what makes sure of another's arguments: then all are written out.
    return found if wanted <= set(found.calls.values()) else whole


def crosses(found: Found) -> bool:
    """Whether a pair stands in several calls."""
    return len(set(_numbers(found))) > 1


def _numbers(found: Found) -> list[Number]:
    return [node.meta.get(CALL, ()) for node in (*found.absorbed, *found.shown_by)]


def _joined(module: nn.Module, forms: Forms, wanted: Collection[str] | None) -> Joined:
    joiner = _Joiner(module, forms, wanted)
    call, graph = forms[module]
    joiner.graph.output(joiner.add((), call, graph, {}))
    return Joined(joiner.graph, joiner.calls)


class _Joiner:
    def __init__(self, root: nn.Module, forms: Forms, wanted: Collection[str] | None) -> None:
        self.graph = fx.Graph()
        self.calls: dict[Number, str] = {}
        self._root, self._forms, self._wanted = root, forms, wanted
        self._loose: set[fx.Node] = set()
        """Nodes that may be no tensor in a later call."""

    def add(self, number: Number, call: Call, graph: fx.Graph, given: Mapping[str, Any]) -> Any:
        """Writes a forward out, with these values for its parameters; answers what it gives."""
        values: dict[fx.Node, Any] = {}
        for node in graph.nodes:
            args, kwargs = _with(values, (node.args, node.kwargs))
            if node.op == "placeholder" and node.target in given:
                values[node] = given[node.target]
            elif node.op == "output":
                return args[0]
            elif _is_element(node, args):
                values[node] = args[0][args[1]]
            else:
                values[node] = self._child(number, node, args, kwargs)
                if values[node] is None:
                    values[node] = self._copy(number, call, node, values)
        raise AssertionError("a graph ends with its output")

    def _copy(self, number: Number, call: Call, node: fx.Node, values: Mapping[fx.Node, Any]) -> fx.Node:
        made = self.graph.node_copy(node, lambda one: values[one])
        path = self.calls.get(number, "")
        made.meta[OWNER], made.meta[NAME], made.meta[CALL] = path, node.name, number
        if path and node.op in ("call_module", "get_attr"):
            made.target = f"{path}.{node.target}"
        if self._is_loose(made, call):
            self._loose.add(made)
        return made

    def _child(self, number: Number, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """What a child's forward gives, written out; None where it stays a call."""
        if node.op != "call_module":
            return None
        path = self.calls.get(number, "")
        inner = f"{path}.{node.target}" if path else str(node.target)
        child = self._root.get_submodule(inner)
        if child not in self._forms or not (self._wanted is None or inner in self._wanted):
            return None
        call, graph = self._forms[child]
        given = call.values(args, kwargs, self._is_of)
        if given is None or has_hooks(child) or not is_alone(child) or not _is_fixed(graph):
            return None
        if type(child).__call__ is not nn.Module.__call__:
            return None  # it does something around its forward
        made = (*number, len(self.calls))
        self.calls[made] = inner
        return self.add(made, call, graph, dict(zip(_traced(call), given, strict=True)))

    def _is_of(self, value: Any, kind: type) -> bool:
        """Whether it is what was traced in every call: a tensor, or a tuple of some."""
        if kind is tuple and type(value) is tuple:
            return all(is_plain(one) or self._is_of(one, torch.Tensor) for one in value)
        return kind is torch.Tensor and isinstance(value, fx.Node) and value not in self._loose

    def _is_loose(self, node: fx.Node, call: Call) -> bool:
        if node.op == "placeholder":
            return call.traced[str(node.target)] is not torch.Tensor
        if node.op == "get_attr":
            return False
        if node.op == "call_module":
            kind = type(self._root.get_submodule(str(node.target)))
            return not kind.__module__.startswith(("torch.nn.", "agent.kernels."))
        sources = node.all_input_nodes
        if node.target in _COMBINING:
            return all(source in self._loose for source in sources)
        return any(source in self._loose for source in sources)


def _traced(call: Call) -> list[str]:
    return [name for name in call.names if name in call.traced]


def _is_fixed(graph: fx.Graph) -> bool:
    """Whether it gives a tensor or a tuple of some: a list or a dict could be changed by the caller."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    given = output.args[0]
    parts = given if type(given) is tuple else (given,)
    return all(isinstance(part, fx.Node) or is_plain(part) for part in parts) and given is not None


def _is_element(node: fx.Node, args: Any) -> bool:
    is_numbered = node.target is operator.getitem and len(args) == 2 and type(args[1]) is int
    return is_numbered and type(args[0]) is tuple


def _with(values: Mapping[fx.Node, Any], arguments: Any) -> Any:
    return fx.map_arg(arguments, lambda one: values[one])
