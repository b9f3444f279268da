"""Pattern and fused call for a linear layer and the cross entropy of its logits, reshaped to rows or not."""

import inspect
import operator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import fx, nn

from agent.kernels import routing
from agent.kernels.linear_cross_entropy.operator import linear_cross_entropy

_SIGNATURE = inspect.signature(F.cross_entropy)


class Loss(NamedTuple):
    """Cross entropy in a graph, with settings that the kernel supports."""

    logits: fx.Node
    target: fx.Node
    settings: tuple[int, float, str]
    """Ignored class index, label smoothing, reduction."""


class Logits(NamedTuple):
    """Linear layer that makes the logits, and the nodes between it and the loss, in the graph's order."""

    linear: fx.Node
    between: tuple[fx.Node, ...]


def loss(node: fx.Node, module: nn.Module) -> Loss | None:
    """Return the cross entropy at a node, called as a function or a module, or None."""
    if node.op == "call_function" and node.target is F.cross_entropy:
        given = _bound(node)
        weight = given.get("weight")
        settings = [given.get(name) for name in ("ignore_index", "label_smoothing", "reduction")]
        if given.get("size_average") is not None or given.get("reduce") is not None:
            return None
    elif node.op == "call_module" and type(module.get_submodule(str(node.target))) is nn.CrossEntropyLoss:
        criterion = module.get_submodule(str(node.target))
        given, weight = _bound(node), criterion.weight
        settings = [criterion.ignore_index, criterion.label_smoothing, criterion.reduction]
    else:
        return None
    logits, target = given.get("input"), given.get("target")
    ignored, smoothing, reduction = settings
    if weight is not None or not isinstance(logits, fx.Node) or not isinstance(target, fx.Node):
        return None
    if not (isinstance(ignored, int) and isinstance(smoothing, float) and isinstance(reduction, str)):
        return None
    if reduction not in ("mean", "sum"):
        return None
    return Loss(logits, target, (ignored, smoothing, reduction))


def _bound(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of F.cross_entropy by name; a module's call only has the first two."""
    try:
        bound = _SIGNATURE.bind(*node.args, **node.kwargs)
    except TypeError:
        return {}
    bound.apply_defaults()
    return dict(bound.arguments)


def logits(node: fx.Node, module: nn.Module) -> Logits | None:
    """Return a linear layer at this node, whose result may be reshaped to rows, or None.

    Reshaping to rows is `.view(-1, classes)`, `.reshape(-1, classes)` or `.flatten(0, 1)`.
    """
    if _is_linear(node, module):
        return Logits(node, ())
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node) or not _is_linear(source, module) or node.kwargs:
        return None
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    if name == "flatten" and node.args[1:] in ((0, 1), (0, -2)):
        return Logits(source, (node,))
    if name not in ("view", "reshape"):
        return None
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    if len(shape) != 2 or shape[0] != -1:
        return None
    if isinstance(shape[1], int):
        return Logits(source, (node,)) if shape[1] == _layer(source, module).out_features else None
    asked = _size(shape[1], source)
    return None if asked is None else Logits(source, (*asked, node))


def _size(node: Any, source: fx.Node) -> tuple[fx.Node, ...] | None:
    """Return the nodes of `source.size(-1)` or `source.shape[-1]`, or None."""
    if not isinstance(node, fx.Node):
        return None
    if node.op == "call_method" and node.target == "size" and node.args == (source, -1):
        return (node,)
    shape = node.args[0] if node.target is operator.getitem and node.args[1:] == (-1,) else None
    is_shape = isinstance(shape, fx.Node) and shape.target is getattr and shape.args == (source, "shape")
    return (shape, node) if is_shape and isinstance(shape, fx.Node) else None


def _is_linear(node: fx.Node, module: nn.Module) -> bool:
    if node.op != "call_module" or type(module.get_submodule(str(node.target))) is not nn.Linear:
        return False
    is_stored = all(
        value.dtype in routing.DTYPES for value in module.get_submodule(str(node.target)).parameters()
    )
    return is_stored and len(node.args) == 1 and isinstance(node.args[0], fx.Node) and not node.kwargs


def _layer(node: fx.Node, module: nn.Module) -> nn.Linear:
    layer = module.get_submodule(str(node.target))
    assert isinstance(layer, nn.Linear)
    return layer


def linear_loss(
    x: torch.Tensor, target: torch.Tensor, layer: nn.Linear, ignored: int, smoothing: float, reduction: str
) -> torch.Tensor:
    """Return F.cross_entropy(layer(x) as rows, target)."""
    value = linear_cross_entropy(
        x.reshape(-1, x.shape[-1]), layer.weight, target, layer.bias, ignore_index=ignored,
        label_smoothing=smoothing, reduction=reduction,
    )  # fmt: skip
    # Torch's loss has the dtype of the logits, and is float32 under autocast.
    return value if torch.is_autocast_enabled(x.device.type) else value.to(x.dtype)


def refused(x: torch.Tensor, target: torch.Tensor) -> str | None:
    """Return why the kernel does not support these tensors, or None if it does."""
    if target.dtype != torch.int64 or target.dim() != 1:
        return "its targets are not numbers of classes, one for each row"
    return None if x.numel() == target.numel() * x.shape[-1] else "its logits are not rows of classes"
