"""Patterns and fused calls for RMSNorm written out in a model's own code, alone or of a sum."""

import operator
from typing import NamedTuple

import torch
from torch import fx, nn

from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.fusing.found import Found, addends, arguments, both_ways, called, factors, in_order
from agent.kernels.rms_norm.operator import rms_norm


class _Norm(NamedTuple):
    source: fx.Node
    weight: fx.Node
    eps: float
    nodes: tuple[fx.Node, ...]
    dtypes: tuple[fx.Node, ...]
    """Nodes that read the input's dtype."""


def alone(node: fx.Node, module: nn.Module) -> Found | None:
    """Find weight * x / sqrt(mean(x^2) + eps), computed in float32 and cast back if the code does so."""
    norm = _norm(node)
    if norm is None:
        return None
    inputs = (norm.source, norm.weight)
    return Found(in_order(norm.nodes), (node,), inputs, (), (norm.eps,), in_order(norm.dtypes))


def of_sum(node: fx.Node, module: nn.Module) -> Found | None:
    """Find an RMSNorm, written out in the module's code, of a sum. Other nodes may use the sum, too."""
    norm = _norm(node)
    pair = None if norm is None else addends(norm.source)
    if norm is None or pair is None:
        return None
    absorbed, inputs = in_order((norm.source, *norm.nodes)), (*pair, norm.weight)
    return Found(absorbed, (norm.source, node), inputs, (), (norm.eps,), in_order(norm.dtypes))


def _norm(node: fx.Node) -> _Norm | None:
    for weight, scaled in both_ways(factors(node)):
        if weight.op != "get_attr":
            continue
        cast = called(scaled, "to", "type_as")
        inner = scaled if cast is None else cast[0][0]
        for x, root in both_ways(factors(inner)):
            eps = _eps(root, x)
            if eps is None:
                continue
            widened = called(x, "float") or called(x, "to")
            is_widened = widened is not None and widened[0][1:] in ((), (torch.float32,)) and not widened[1]
            source = x.args[0] if is_widened else x
            back = _dtype_of(source, scaled) if cast is not None else ()
            if back is None or not isinstance(source, fx.Node):
                continue
            nodes = (node, scaled, inner, *eps[1], *((x,) if is_widened else ()))
            return _Norm(source, weight, eps[0], nodes, back)
    return None


def _dtype_of(source: object, cast: fx.Node) -> tuple[fx.Node, ...] | None:
    """Return the nodes that read the source's dtype if `cast` converts to that dtype; otherwise None."""
    if len(cast.args) != 2 or cast.kwargs:
        return None
    to = cast.args[1]
    if to is source:
        return ()
    is_dtype = isinstance(to, fx.Node) and to.target is getattr and to.args == (source, "dtype")
    return (to,) if is_dtype else None  # type: ignore[return-value]


def _eps(root: fx.Node, x: fx.Node) -> tuple[float, tuple[fx.Node, ...]] | None:
    """Return the eps of rsqrt(mean(x^2) + eps) and the nodes that compute this root, or None."""
    rooted = called(root, "rsqrt")
    total = None if rooted is None or len(rooted[0]) != 1 else rooted[0][0]
    pair = arguments(total, operator.add, torch.add)
    if pair is None or not isinstance(total, fx.Node):
        return None
    mean, eps = pair if isinstance(pair[0], fx.Node) else pair[::-1]
    meant = called(mean, "mean")
    if meant is None or type(eps) is not float:
        return None
    given = dict(zip(("input", "dim", "keepdim"), meant[0], strict=False)) | meant[1]
    square = given.pop("input", None)
    squared = called(square, "pow", "square") or called(square, "mul")
    if squared is None or squared[1] or given not in ({"dim": -1, "keepdim": True}, _LAST):
        return None
    is_square = squared[0] in ((x, 2), (x,), (x, x)) and squared[0][0] is x
    return (eps, (root, total, mean, square)) if is_square else None


_LAST = {"dim": (-1,), "keepdim": True}


def written_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return RMSNorm of x over the last dimension."""
    if refuses(x, weight) is not None:
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)
    return rms_norm(x, weight.shape, weight, eps)


def written_norm_of_sum(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum, then its norm."""
    if refuses_sum(x, y, weight) is not None:
        total = x + y
        return total, written_norm(total, weight, eps)
    normed, total = add_rms_norm(x, y, weight.shape, weight, eps)
    return total, normed


def refuses(x: torch.Tensor, weight: torch.Tensor) -> str | None:
    """Return why the kernel does not support these tensors, or None if it does."""
    if weight.dim() != 1 or weight.shape[0] != x.shape[-1]:
        return f"its weight has the shape {tuple(weight.shape)}"
    if torch.promote_types(x.dtype, weight.dtype) != x.dtype:
        return "its weight is of a wider type than its input, and the result too"
    return None


def refuses_sum(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> str | None:
    """Return why the kernel does not support these tensors, or None if it does."""
    if x.shape != y.shape:
        return f"its tensors have the shapes {tuple(x.shape)} and {tuple(y.shape)}"
    return "its tensors have two dtypes" if x.dtype != y.dtype else refuses(x, weight)
