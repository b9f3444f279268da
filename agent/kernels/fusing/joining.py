"""Inlining of children's graphs into a module's graph, for pairs of operations that span two forwards.

One such pair is a layer's last sum and the next layer's norm. The graph of the module that holds both layers
contains the pair once the two forwards are inlined. A child's graph is its forward for calls of the traced
form. So a child is inlined only if the call passes the values that its trace took for constants, and tensors
for the traced parameters. If that is not certain for every later call, the child remains a call.
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
"""Form of the call of each traced module, and the module's own graph."""


Number = tuple[int, ...]
"""Number of an inlined call: that of the enclosing call, and one more; () for the module itself."""


@dataclass(frozen=True)
class Joined:
    """Graph that contains the forwards of several modules."""

    graph: fx.Graph
    calls: Mapping[Number, str]
    """Paths of the modules whose forwards are inlined."""

    def holder(self, found: Found) -> Number:
        """Return the innermost inlined call that contains all nodes of a pair."""
        numbers = _numbers(found)
        shared = 0
        while all(len(one) > shared and one[shared] == numbers[0][shared] for one in numbers):
            shared += 1
        return numbers[0][:shared]

    def owners(self, found: Found) -> set[str]:
        """Return the paths of the modules that contain a part of the pair, and of all modules above them."""
        numbers = _numbers(found)
        return {self.calls[one[:depth]] for one in numbers for depth in range(1, len(one) + 1)}


def joined(module: nn.Module, forms: Forms) -> Joined | None:
    """Return the module's graph with those children inlined that share a pair; None if none share one."""
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
        # Children of an inlined module that share pairs are inlined too: nothing calls the module any more.
        more = {
            owner for holder, owners in pairs if holder and whole.calls[holder] in wanted for owner in owners
        } - wanted
        grown = bool(more)
        wanted |= more
    found = _joined(module, forms, wanted)
    # Inlines all children if a wanted one remains: a child without a pair may produce a tensor that it needs.
    return found if wanted <= set(found.calls.values()) else whole


def crosses(found: Found) -> bool:
    """Return True if a pair spans several module calls."""
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
        """Inline a forward with `given` as the values of its parameters, and return its result."""
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
        """Return the result of a child's inlined forward, or None if the child remains a call."""
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
            return None  # a custom __call__ may do more than call forward
        made = (*number, len(self.calls))
        self.calls[made] = inner
        return self.add(made, call, graph, dict(zip(_traced(call), given, strict=True)))

    def _is_of(self, value: Any, kind: type) -> bool:
        """Return True if the value has the traced type in every call.

        The type is a tensor's, or that of a tuple of tensors and plain values.
        """
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
    """Return True if a graph returns a tensor, or a tuple of tensors and plain values.

    A list or a dict does not qualify, because the caller could change it.
    """
    (output,) = (node for node in graph.nodes if node.op == "output")
    given = output.args[0]
    parts = given if type(given) is tuple else (given,)
    return all(isinstance(part, fx.Node) or is_plain(part) for part in parts) and given is not None


def _is_element(node: fx.Node, args: Any) -> bool:
    is_numbered = node.target is operator.getitem and len(args) == 2 and type(args[1]) is int
    return is_numbered and type(args[0]) is tuple


def _with(values: Mapping[fx.Node, Any], arguments: Any) -> Any:
    return fx.map_arg(arguments, lambda one: values[one])
