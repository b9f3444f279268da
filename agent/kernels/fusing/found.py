"""Place of a pattern in a graph, and recognition of the operations that patterns consist of."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from agent.kernels import routing

OWNER, NAME, CALL = "owner", "name", "call"
"""Keys of a node's `meta` in a graph that contains the forwards of several modules.

They give the path of the module whose forward has the node, the node's name there, and the call to which it
belongs (`joining.Number`)."""
MANY = 6
"""Maximum number of nodes that a label names individually."""


@dataclass(frozen=True)
class Found:
    """Place in a graph where a pattern stands."""

    absorbed: tuple[fx.Node, ...]
    """Nodes that the fused call computes, in the graph's order."""
    results: tuple[fx.Node, ...]
    """Absorbed nodes that other nodes use. If there are several, the fused call returns a tuple."""
    inputs: tuple[fx.Node, ...]
    modules: tuple[str, ...] = ()
    """Paths, within the traced module, of the modules whose parameters the fused call needs."""
    settings: tuple[Any, ...] = ()
    beside: tuple[fx.Node, ...] = ()
    """Nodes that read sizes: they depend on the inputs alone, and stay where they are."""
    shown_by: tuple[fx.Node, ...] = ()
    """Nodes before the inputs that prove a property on which the fused call relies; they stay where they are,
    too.
    """

    @property
    def called(self) -> tuple[str, ...]:
        """Return the paths of all modules that are no longer called."""
        return tuple(str(node.target) for node in self.absorbed if node.op == "call_module")

    @property
    def label(self) -> str:
        """Return a label such as `norm1 + silu`, by the names in the module and its graph.

        Only the first and the last of more than MANY nodes are named.
        """
        names = [str(node.target) if node.op == "call_module" else _name(node) for node in self.absorbed]
        return " + ".join(names) if len(names) <= MANY else f"{names[0]} + ... + {names[-1]}"


def _name(node: fx.Node) -> str:
    owner, name = node.meta.get(OWNER, ""), node.meta.get(NAME, node.name)
    return f"{owner}.{name}" if owner else name


def in_order(nodes: Sequence[fx.Node]) -> tuple[fx.Node, ...]:
    """Return each node once, in the graph's order."""
    places = {node: place for place, node in enumerate(nodes[0].graph.nodes)} if nodes else {}
    return tuple(sorted(set(nodes), key=places.__getitem__))


def operands(node: object, *functions: Callable[..., Any]) -> tuple[fx.Node, fx.Node] | None:
    """Return the two tensors that a node combines by one of these functions, or None.

    A method with the first function's name counts as well.
    """
    pair = arguments(node, *functions)
    if pair is None or not (isinstance(pair[0], fx.Node) and isinstance(pair[1], fx.Node)):
        return None
    return pair[0], pair[1]


def arguments(node: object, *functions: Callable[..., Any]) -> tuple[Any, Any] | None:
    """Return the two operands that a node combines like `operands`, where either may be a number; or None."""
    if not isinstance(node, fx.Node):
        return None
    is_function = node.op == "call_function" and node.target in functions
    is_method = node.op == "call_method" and node.target == functions[0].__name__
    if not (is_function or is_method) or node.kwargs or len(node.args) != 2:
        return None
    return node.args[0], node.args[1]


def addends(node: object) -> tuple[fx.Node, fx.Node] | None:
    """Return the two tensors whose sum a node is, or None.

    In-place sums do not count, because others see the tensor that they write to.
    """
    return operands(node, operator.add, torch.add)


def factors(node: object) -> tuple[fx.Node, fx.Node] | None:
    """Return the two tensors whose product a node is, or None."""
    return operands(node, operator.mul, torch.mul)


def both_ways(pair: tuple[fx.Node, fx.Node] | None) -> tuple[tuple[fx.Node, fx.Node], ...]:
    """Return two nodes in both orders, or an empty tuple for None."""
    return () if pair is None else (pair, pair[::-1])


def module_call(node: fx.Node, module: nn.Module, kinds: Sequence[type[nn.Module]]) -> fx.Node | None:
    """Return the only input of a module's call if the module's class is one of these kinds, or None."""
    if node.op != "call_module" or type(module.get_submodule(str(node.target))) not in kinds:
        return None
    source = node.args[0] if len(node.args) == 1 else node.kwargs.get("input", node.kwargs.get("x"))
    return source if isinstance(source, fx.Node) and len(node.args) + len(node.kwargs) == 1 else None


def norm_call(
    node: fx.Node, module: nn.Module, kinds: Sequence[type[nn.Module]]
) -> tuple[fx.Node, str] | None:
    """Return the input and the path of a norm that the kernel supports, or None."""
    source = module_call(node, module, kinds)
    if source is None:
        return None
    norm = module.get_submodule(str(node.target))
    takes = all(value.dtype in routing.DTYPES for value in norm.parameters())
    return (source, str(node.target)) if takes and getattr(norm, "act", "none") == "none" else None


def called(node: object, *names: str) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments of a call of torch's function or tensor method of one of these names, or None."""
    if not isinstance(node, fx.Node) or node.op not in ("call_function", "call_method"):
        return None
    if node.op == "call_method":
        is_one = node.target in names
    else:
        places = (torch, F, operator)
        is_one = any(node.target is getattr(place, name, None) for name in names for place in places)
    return (node.args, dict(node.kwargs)) if is_one else None
