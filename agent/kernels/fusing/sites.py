"""Places of patterns in a module's graph, obstacles to fusing them, and the graph with fused calls."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from agent.kernels.fusing.found import Found
from agent.kernels.fusing.patterns import PATTERNS, Pattern
from agent.kernels.fusing.tracing import IN_PLACE

_WRITING = {getattr(operator, name) for name in IN_PLACE}
_NEW = (operator.add, operator.sub, operator.mul, operator.truediv, torch.add, torch.sub, torch.mul)
_MAKING = (_ConvNd, _BatchNorm, nn.Linear, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""Modules whose result shares no other tensor's memory; _NEW has the functions with that property."""


@dataclass(frozen=True)
class Site:
    """Pattern found at one place of a graph."""

    pattern: Pattern
    found: Found

    @property
    def label(self) -> str:
        """Return the label of the place, by the names in the module."""
        return self.found.label


@dataclass
class Sites:
    """Patterns found in one graph."""

    fit: list[Site] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Reason by label of each place that is not fused."""


def sites(graph: fx.Graph, module: nn.Module, is_told: Callable[[Found], bool] = lambda _: True) -> Sites:
    """Return the patterns in the graph, none of which share a node.

    Of the places that are not fused, only those for which `is_told` is true are reported.
    """
    done = Sites()
    order = _order(graph, module)
    taken: set[fx.Node] = set()
    stay: list[tuple[Found, str]] = []
    for node in reversed(list(graph.nodes)):
        for pattern in PATTERNS:
            found = None if node in taken else pattern.find(node, module)
            if found is None or taken & set(found.absorbed):
                continue
            reason = _obstacle(order, module, found)
            if reason is None:
                done.fit.append(Site(pattern, found))
                taken.update(found.absorbed)
                break
            stay.append((found, reason))
    for found, reason in stay:
        if found.results[-1] not in taken and is_told(found):
            done.kept.setdefault(found.label, reason)
    done.fit.reverse()
    return done


def has_hooks(module: nn.Module) -> bool:
    """Return True if a hook of the module would no longer be called once the module is fused."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
        or module._backward_pre_hooks
    )  # fmt: skip


def is_alone(module: nn.Module) -> bool:
    """Return True if the module's forward is that of its class and is not compiled."""
    return "forward" not in module.__dict__ and module._compiled_call_impl is None


def rewritten(graph: fx.Graph, chosen: Iterable[Site]) -> fx.Graph:
    """Return a copy of the graph with the fused calls of these sites."""
    made = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    result = made.graph_copy(graph, copies)
    made.output(result)
    for site in chosen:
        found = site.found
        results = [copies[node] for node in found.results]
        with made.inserting_before(results[0]):
            modules = [made.create_node("get_attr", path) for path in found.modules]
            inputs = [
                # Gets an attribute again, since its node may come after the fused call.
                made.create_node("get_attr", node.target) if node.op == "get_attr" else copies[node]
                for node in found.inputs
            ]
            arguments = (*inputs, *modules, *found.settings)
            call = made.call_function(site.pattern.fused, arguments)
            parts = [call]
            if len(results) > 1:
                parts = [made.call_function(operator.getitem, (call, i)) for i in range(len(results))]
        gone = [copies[node] for node in reversed(found.absorbed)]
        for node, new in zip(found.results, parts, strict=True):
            copies[node].replace_all_uses_with(new)
            copies[node] = new  # may be the input of another site
        for node in gone:
            made.erase_node(node)
    return made


@dataclass(frozen=True)
class _Order:
    """Index of each node of a graph, and the nodes that write in place, with the tensor they write to."""

    places: Mapping[fx.Node, int]
    writes: tuple[tuple[fx.Node, fx.Node], ...]


def _order(graph: fx.Graph, module: nn.Module) -> _Order:
    nodes = list(graph.nodes)
    writes = [
        (node, node.args[0])
        for node in nodes
        if node.args and isinstance(node.args[0], fx.Node) and _writes(node, module)
    ]
    return _Order({node: place for place, node in enumerate(nodes)}, tuple(writes))


def _obstacle(order: _Order, module: nn.Module, found: Found) -> str | None:
    absorbed, places = set(found.absorbed), order.places
    inner = absorbed - set(found.results)
    if any(user not in absorbed for node in inner for user in node.users):
        return "what lies between is used elsewhere too"
    start = min(places[node] for node in found.absorbed)
    end = min(places[node] for node in found.results)
    if any(places[node] >= end for node in found.inputs if node.op != "get_attr"):
        return "what it needs is made later than what it gives is used"
    for node, written in order.writes:
        matters = start < places[node] and node not in absorbed
        if matters and places[node] > max(places[one] for one in absorbed):
            matters = not _is_made_later(written, module, found, places)
        if written in found.inputs or matters:
            return "a tensor is changed in place between"
    if any(has_hooks(module.get_submodule(path)) for path in found.called):
        return "a module of it has hooks"
    return None


def _is_made_later(written: fx.Node, module: nn.Module, found: Found, places: Mapping[fx.Node, int]) -> bool:
    """Return True for a tensor in memory of its own that is made after every input of the fused call."""
    while written.args and _writes(written, module) and isinstance(written.args[0], fx.Node):
        written = written.args[0]
    if written in found.absorbed or any(places[written] <= places[one] for one in found.inputs):
        return False
    if written.op == "call_module":
        return isinstance(module.get_submodule(str(written.target)), _MAKING)
    return written.op == "call_function" and written.target in _NEW


def _writes(node: fx.Node, module: nn.Module) -> bool:
    """Return True if a node changes its first argument in place."""
    if node.kwargs.get("inplace") is True:
        return True
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op not in ("call_function", "call_method"):
        return False
    return node.target in _WRITING or (name.endswith("_") and not name.endswith("__"))
