"""Table of the patterns to fuse: how each is found in a graph, and the call that replaces it.

A new pattern is one entry of PATTERNS. `find` gets a node and returns the pattern that ends there. `fused`
takes the tensors, then the modules whose parameters it needs, then the settings, ordered as in `Found`.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from agent.kernels.add_layer_norm.operator import add_layer_norm
from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.fusing import embeddings, losses, rotations, scores, written
from agent.kernels.fusing.batches import (
    BATCHES,
    INSTANCES,
    batch_norm_act,
    batch_norm_add_act,
    instance_norm_act,
    instance_norm_add_act,
)
from agent.kernels.fusing.found import Found, addends, both_ways, factors, norm_call, operands
from agent.kernels.gate_product.operator import ACTS, gate_product
from agent.kernels.gelu.module import GELU
from agent.kernels.group_norm.activation import NUMBERS
from agent.kernels.group_norm.module import GroupNorm
from agent.kernels.group_norm.operator import group_norm
from agent.kernels.layer_norm.module import LayerNorm
from agent.kernels.rms_norm.module import RMSNorm

Find = Callable[[fx.Node, nn.Module], Found | None]
Kinds = Sequence[type[nn.Module]]


@dataclass(frozen=True)
class Pattern:
    """Pattern to find, and the call that replaces it."""

    name: str
    kernel: str
    find: Find
    fused: Callable[..., Any]
    refuses: Callable[..., str | None] = lambda *_: None
    """(tensors of `fused`) -> why the kernel does not support them, beyond `routing`'s rules; or None."""
    constants: int = 0
    """Number of tensors, counted from the last, that are tables without a gradient.

    If a table requires a gradient, the call falls back to torch."""


@dataclass(frozen=True)
class Activation:
    """act(source): the activation's name, its input, and the nodes that compute it."""

    act: str
    source: fx.Node
    nodes: tuple[fx.Node, ...]


def activation(node: fx.Node, module: nn.Module) -> Activation | None:
    """Return the activation that ends at this node, if a kernel supports it."""
    if node.op == "call_module":
        act = _act_of_module(module.get_submodule(str(node.target)))
    else:
        act = _FUNCTIONS.get(node.target) if node.op == "call_function" else None
        act = _METHODS.get(str(node.target)) if node.op == "call_method" else act
        if act is None:
            return _swish(node)
        others = {name: value for name, value in node.kwargs.items() if name not in ("input", "inplace")}
        approximate = others.pop("approximate", "none")
        if others or len(node.args) > 1 or approximate not in ("none", "tanh"):
            return None
        act = f"{act}_tanh" if approximate == "tanh" else act
    source = node.args[0] if node.args else node.kwargs.get("input")
    if act is None or not isinstance(source, fx.Node):
        return None
    return Activation(act, source, (node,))


def _act_of_module(module: nn.Module) -> str | None:
    if isinstance(module, nn.GELU) and type(module) in (nn.GELU, GELU):
        return "gelu" if module.approximate == "none" else "gelu_tanh"
    return _MODULES.get(type(module))


def _swish(node: fx.Node) -> Activation | None:
    """Find x * sigmoid(x), the older spelling of SiLU."""
    if node.op != "call_function" or node.target not in (operator.mul, torch.mul) or len(node.args) != 2:
        return None
    for source, gate in (node.args, node.args[::-1]):
        if not (isinstance(source, fx.Node) and isinstance(gate, fx.Node)):
            continue
        is_function = gate.op == "call_function" and gate.target in (torch.sigmoid, F.sigmoid)
        is_sigmoid = is_function or (gate.op == "call_method" and gate.target == "sigmoid")
        if is_sigmoid and gate.args == (source,) and not gate.kwargs:
            return Activation("silu", source, (gate, node))
    return None


def _norm_act(kinds: Kinds) -> Find:
    """Return a finder for a norm of these kinds and an activation."""

    def find(node: fx.Node, module: nn.Module) -> Found | None:
        act = activation(node, module)
        normed = None if act is None or act.act not in NUMBERS else norm_call(act.source, module, kinds)
        if act is None or normed is None:
            return None
        return Found((act.source, *act.nodes), (node,), (normed[0],), (normed[1],), (act.act,))

    return find


def _norm_add(kinds: Kinds) -> Find:
    """Return a finder for a norm of these kinds, a sum with it, and an optional activation of the sum."""

    def find(node: fx.Node, module: nn.Module) -> Found | None:
        act = activation(node, module)
        if act is not None and act.act not in NUMBERS:
            return None
        total = node if act is None else act.source
        for normed, residual in both_ways(addends(total)) or _added_to(total):
            norm = norm_call(normed, module, kinds)
            if norm is not None and normed is not residual:
                absorbed = (normed, total, *(act.nodes if act else ()))
                settings = (act.act if act else "none",)
                return Found(absorbed, (node,), (norm[0], residual), (norm[1],), settings)
        return None

    return find


def _added_to(node: fx.Node) -> tuple[tuple[fx.Node, fx.Node], ...]:
    """Return the operands of the in-place sum `y += x`; other uses of y are checked later."""
    pair = operands(node, operator.iadd)
    return () if pair is None else (pair,)


def _linear_loss(node: fx.Node, module: nn.Module) -> Found | None:
    loss = losses.loss(node, module)
    logits = None if loss is None else losses.logits(loss.logits, module)
    if loss is None or logits is None:
        return None
    absorbed = (logits.linear, *logits.between, node)
    source = logits.linear.args[0]
    assert isinstance(source, fx.Node)
    return Found(absorbed, (node,), (source, loss.target), (str(logits.linear.target),), loss.settings)


def _add_norm(*kinds: type[nn.Module]) -> Find:
    """Return a finder for a sum and its norm. Other nodes may use the sum, too."""

    def find(node: fx.Node, module: nn.Module) -> Found | None:
        normed = norm_call(node, module, kinds)
        pair = None if normed is None else addends(normed[0])
        if normed is None or pair is None:
            return None
        return Found((normed[0], node), (normed[0], node), pair, (normed[1],))

    return find


def _gate(node: fx.Node, module: nn.Module) -> Found | None:
    """Find act(gate) * value, unless the gate is a GroupNorm: fusing the norm with act saves more."""
    for side, value in both_ways(factors(node)):
        act = activation(side, module)
        if act is not None and act.act in ACTS and norm_call(act.source, module, GROUPS) is None:
            return Found((*act.nodes, node), (node,), (act.source, value), (), (act.act,))
    return None


def group_norm_act(x: torch.Tensor, norm: nn.GroupNorm, act: str) -> torch.Tensor:
    """Return act(norm(x))."""
    return group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps, act=act)


def group_norm_add_act(x: torch.Tensor, residual: torch.Tensor, norm: nn.GroupNorm, act: str) -> torch.Tensor:
    """Return act(norm(x) + residual)."""
    return group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps, act=act, residual=residual)


def added_rms_norm(x: torch.Tensor, y: torch.Tensor, norm: nn.RMSNorm) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum, then its norm."""
    normed, added = add_rms_norm(x, y, norm.normalized_shape, norm.weight, norm.eps)
    return added, normed


def added_layer_norm(
    x: torch.Tensor, y: torch.Tensor, norm: nn.LayerNorm
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum, then its norm."""
    normed, added = add_layer_norm(x, y, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
    return added, normed


def _unlike(x: torch.Tensor, y: torch.Tensor) -> str | None:
    if x.shape != y.shape:
        return f"its tensors have the shapes {tuple(x.shape)} and {tuple(y.shape)}"
    return None if x.dtype == y.dtype else "its tensors have two dtypes"


GROUPS = (nn.GroupNorm, GroupNorm)
NORMS = (*GROUPS, *BATCHES, *INSTANCES, nn.LayerNorm, LayerNorm, nn.RMSNorm, RMSNorm)
"""Modules with which a pattern begins: if one is not fused, the module that holds it is reported."""
_MODULES: dict[type[nn.Module], str] = {
    nn.SiLU: "silu", nn.ReLU: "relu", nn.Tanh: "tanh", nn.Hardswish: "hardswish"
}  # fmt: skip
_FUNCTIONS: dict[Any, str] = {
    F.silu: "silu", F.gelu: "gelu", F.relu: "relu", torch.relu: "relu", torch.tanh: "tanh", F.tanh: "tanh",
    F.hardswish: "hardswish",
}  # fmt: skip
_METHODS = {"relu": "relu", "tanh": "tanh"}

PATTERNS = (
    Pattern(
        "linear + cross entropy", "linear_cross_entropy", _linear_loss, losses.linear_loss, losses.refused
    ),
    Pattern("GroupNorm + sum", "group_norm", _norm_add(GROUPS), group_norm_add_act, _unlike),
    Pattern("BatchNorm + sum", "batch_norm", _norm_add(BATCHES), batch_norm_add_act, _unlike),
    Pattern("gate * value", "gate_product", _gate, gate_product, _unlike),
    Pattern("GroupNorm + activation", "group_norm", _norm_act(GROUPS), group_norm_act),
    Pattern("BatchNorm + activation", "batch_norm", _norm_act(BATCHES), batch_norm_act),
    Pattern("InstanceNorm + sum", "group_norm", _norm_add(INSTANCES), instance_norm_add_act, _unlike),
    Pattern("InstanceNorm + activation", "group_norm", _norm_act(INSTANCES), instance_norm_act),
    Pattern("mask + softmax", "masked_softmax", scores.masked, scores.softmax_of_masked, scores.refuses),
    Pattern("scale + softmax", "masked_softmax", scores.scaled, scores.softmax_of_scaled),
    Pattern("rotary embedding", "rotary", rotations.turned, rotations.rotated, rotations.refuses, 2),
    Pattern(
        "rotary embedding, whole tables", "rotary", rotations.half_turned, rotations.rotated,
        rotations.refuses, 2,
    ),
    Pattern("embedding + norm", "embedding_norm", embeddings.embedding, embeddings.embedded_norm),
    Pattern(
        "embedding + positions + norm", "embedding_norm", embeddings.embedding_and_positions,
        embeddings.placed_norm, embeddings.refuses_positions,
    ),
    Pattern("sum + RMSNorm", "add_rms_norm", _add_norm(nn.RMSNorm, RMSNorm), added_rms_norm, _unlike),
    Pattern(
        "sum + RMSNorm written out", "add_rms_norm", written.of_sum, written.written_norm_of_sum,
        written.refuses_sum,
    ),
    Pattern("RMSNorm written out", "rms_norm", written.alone, written.written_norm, written.refuses),
    Pattern(
        "sum + LayerNorm", "add_layer_norm", _add_norm(nn.LayerNorm, LayerNorm), added_layer_norm, _unlike
    ),
)  # fmt: skip
"""Patterns in the order in which they are tried at each node, from the graph's end."""
