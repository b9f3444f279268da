"""Patterns and fused calls for the softmax of scaled and masked scores, as models spell attention."""

import operator
from math import inf
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from agent.kernels.fusing.found import Found, addends, arguments, both_ways, called
from agent.kernels.masked_softmax.operator import masked_softmax
from agent.kernels.softmax.module import Softmax

_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")


class _Mask(NamedTuple):
    scores: fx.Node
    mask: fx.Node
    hides: bool
    """True if the mask names the elements to leave out, False if it is added."""


def masked(node: fx.Node, module: nn.Module) -> Found | None:
    """Find softmax(scores * scale + mask), or the softmax of scores filled with minus infinity."""
    source = _softmax(node, module)
    mask = None if source is None else _mask(source)
    if source is None or mask is None:
        return None
    x, scale, between = _scaled(mask.scores)
    absorbed = (*between, source, node)
    return Found(absorbed, (node,), (x, mask.mask), (), (scale, mask.hides))


def scaled(node: fx.Node, module: nn.Module) -> Found | None:
    """Find softmax(scores * scale)."""
    source = _softmax(node, module)
    if source is None:
        return None
    x, scale, between = _scaled(source)
    return Found((*between, node), (node,), (x,), (), (scale,)) if between else None


def _softmax(node: fx.Node, module: nn.Module) -> fx.Node | None:
    """Return the input of a softmax over the last dimension that keeps the dtype, or None."""
    if node.op == "call_module":
        softmax = module.get_submodule(str(node.target))
        if type(softmax) not in (nn.Softmax, Softmax) or softmax.dim != -1 or node.kwargs:
            return None
        source = node.args[0] if len(node.args) == 1 else None
    else:
        if called(node, "softmax") is None:
            return None
        given = dict(zip(("input", "dim"), node.args, strict=False)) | dict(node.kwargs)
        given.pop("_stacklevel", None)
        if len(node.args) > 2 or given.pop("dim", None) != -1 or given.pop("dtype", None) is not None:
            return None
        source = given.pop("input", None)
        if given:
            return None
    return source if isinstance(source, fx.Node) else None


def _mask(node: fx.Node) -> _Mask | None:
    filled = called(node, "masked_fill")
    if filled is not None:
        args, kwargs = filled
        given = dict(zip(("input", "mask", "value"), args, strict=False)) | kwargs
        x, mask = given.get("input"), given.get("mask")
        if given.get("value") != -inf or not (isinstance(x, fx.Node) and isinstance(mask, fx.Node)):
            return None
        return _Mask(x, mask, hides=True)
    for scores, mask in both_ways(addends(node)):
        if _is_score(scores) and scores is not mask:
            return _Mask(scores, mask, hides=False)
    return None


def _is_score(node: fx.Node) -> bool:
    """Return True for a product of matrices, scaled or not: a tensor added to scores counts as a mask."""
    source = _scaled(node)[0]
    return called(source, *_PRODUCTS) is not None


def _scaled(node: fx.Node) -> tuple[fx.Node, float, tuple[fx.Node, ...]]:
    """Return the tensor that `node` scales by a number, the number, and the nodes that scale it.

    A node that scales nothing is returned itself, with the number 1 and no nodes.
    """
    divided = arguments(node, operator.truediv, torch.div) or arguments(node, torch.div)
    if divided is not None and isinstance(divided[0], fx.Node) and _is_number(divided[1]):
        return divided[0], 1.0 / divided[1], (node,)
    for x, scale in _either(arguments(node, operator.mul, torch.mul)):
        if isinstance(x, fx.Node) and _is_number(scale):
            return x, float(scale), (node,)
    return node, 1.0, ()


def _either(pair: tuple[Any, Any] | None) -> tuple[tuple[Any, Any], ...]:
    return () if pair is None else (pair, pair[::-1])


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and value != 0


def softmax_of_masked(x: torch.Tensor, mask: torch.Tensor, scale: float, hides: bool) -> torch.Tensor:
    """Return the softmax over the last dimension. A fully masked row is 0, where torch has NaN."""
    if x.dim() < 2:
        scores = x * scale
        return torch.softmax(scores.masked_fill(mask, -inf) if hides else scores + mask, -1)
    return masked_softmax(x, ~mask if hides else mask, scale=scale)


def softmax_of_scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Return softmax(x * scale) over the last dimension."""
    return torch.softmax(x * scale, -1) if x.dim() < 2 else masked_softmax(x, scale=scale)


def refuses(x: torch.Tensor, mask: torch.Tensor) -> str | None:
    """Return why the kernel does not support these tensors, or None if it does."""
    if mask.dtype not in (torch.bool, x.dtype):
        return "its mask is neither boolean nor of the scores' dtype"
    sizes = zip(reversed(mask.shape), reversed(x.shape), strict=False)
    if mask.dim() > x.dim() or any(one not in (1, size) for one, size in sizes):
        return f"its mask of {tuple(mask.shape)} does not broadcast to scores of {tuple(x.shape)}"
    return None
