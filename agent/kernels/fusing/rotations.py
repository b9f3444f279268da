"""Patterns and fused call for rotary position embedding, as models spell it."""

import operator
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from agent.kernels.fusing.found import Found, addends, arguments, both_ways, called, factors, in_order
from agent.kernels.rotary.operator import rotary

_LAST = (-1,)
_KEEPING = ("to", "type_as", "type", "float", "half", "bfloat16", "contiguous", "detach", "cos", "sin")
"""Methods that leave each element at its index."""


class _Halves(NamedTuple):
    """Two parts of a tensor whose elements form the pairs to rotate."""

    x: fx.Node
    interleaved: bool
    nodes: tuple[fx.Node, ...]
    sizes: tuple[fx.Node, ...] = ()
    half: int | None = None
    """Size of the first part, if the model's code has a number for it."""


class _Product(NamedTuple):
    part: fx.Node
    table: fx.Node
    node: fx.Node


def turned(node: fx.Node, module: nn.Module) -> Found | None:
    """Find (a cos - b sin, b cos + a sin), joined in the order in which x was split into a and b."""
    joined = _together(node)
    if joined is None:
        return None
    one, two, interleaved, ends = joined
    for first, second in _products(arguments(one, operator.sub, torch.sub)):
        for third, fourth in _products(addends(two)):
            for more, less in ((third, fourth), (fourth, third)):
                if not _is_turn(first, second, more, less):
                    continue
                parts = _parts(first.part, second.part)
                if parts is None or parts.interleaved != interleaved:
                    continue
                used = (first.node, second.node, more.node, less.node, one, two)
                absorbed = in_order((*parts.nodes, *used, *ends))
                inputs = (parts.x, first.table, second.table)
                return Found(absorbed, (node,), inputs, (), (interleaved, parts.half), in_order(parts.sizes))
    return None


def half_turned(node: fx.Node, module: nn.Module) -> Found | None:
    """Find x cos + (-b, a) sin, by tables whose two halves are provably equal."""
    for straight, crossed in both_ways(addends(node)):
        for x, cos in both_ways(factors(straight)):
            for turn, sin in both_ways(factors(crossed)):
                parts = _turn(turn)
                doubled = (_doubled(cos), _doubled(sin))
                if parts is None or parts[0].x is not x or doubled[0] is None or doubled[1] is None:
                    continue
                absorbed = in_order((*parts[0].nodes, *parts[1], straight, crossed, node))
                return Found(
                    absorbed, (node,), (x, cos, sin), (), (False, parts[0].half), in_order(parts[0].sizes),
                    (doubled[0], doubled[1]),
                )  # fmt: skip
    return None


def _together(node: fx.Node) -> tuple[fx.Node, fx.Node, bool, tuple[fx.Node, ...]] | None:
    """Return two tensors joined side by side in the last dimension, or interleaved, or None.

    The third value is True if they are interleaved, and the last value has the nodes that join them.
    """
    pair = _pair_of(node, "cat", "concat", "concatenate")
    if pair is not None:
        return *pair, False, (node,)
    flat = called(node, "flatten")
    if flat is None or flat[1] or len(flat[0]) not in (2, 3) or flat[0][1] != -2:
        return None
    if flat[0][2:] not in ((), _LAST):
        return None
    pair = _pair_of(flat[0][0], "stack")
    return None if pair is None else (*pair, True, (flat[0][0], node))


def _pair_of(node: object, *names: str) -> tuple[fx.Node, fx.Node] | None:
    made = called(node, *names)
    if made is None:
        return None
    given = dict(zip(("tensors", "dim"), made[0], strict=False)) | made[1]
    tensors = given.pop("tensors", ())
    if given != {"dim": -1} or not isinstance(tensors, tuple | list) or len(tensors) != 2:
        return None
    one, two = tensors
    return (one, two) if isinstance(one, fx.Node) and isinstance(two, fx.Node) else None


def _products(pair: tuple[Any, Any] | None) -> list[tuple[_Product, _Product]]:
    """Return two nodes as products of a part and a table, for each order of their factors."""
    if pair is None:
        return []
    ways = [[_Product(*way, one) for way in both_ways(factors(one))] for one in pair]
    return [(one, two) for one in ways[0] for two in ways[1]]


def _is_turn(first: _Product, second: _Product, third: _Product, fourth: _Product) -> bool:
    """Return True if the four products are a cos, b sin, b cos and a sin."""
    is_crossed = third.part is second.part and fourth.part is first.part
    return is_crossed and third.table is first.table and fourth.table is second.table


def _turn(node: fx.Node) -> tuple[_Halves, tuple[fx.Node, ...]] | None:
    """Return the halves (a, b) of a tensor if this node is (-b, a), and the nodes that make it; or None."""
    pair = _pair_of(node, "cat", "concat", "concatenate")
    negated = None if pair is None else called(pair[0], "neg", "negative")
    if pair is None or negated is None or negated[1] or len(negated[0]) != 1:
        return None
    parts = _parts(pair[1], negated[0][0])
    return None if parts is None or parts.interleaved else (parts, (pair[0], node))


def _parts(one: object, two: object) -> _Halves | None:
    """Return the tensor of which `one` and `two` are the halves, or the even and odd elements, or None."""
    if not (isinstance(one, fx.Node) and isinstance(two, fx.Node)):
        return None
    if not all(node.target is operator.getitem and len(node.args) == 2 for node in (one, two)):
        return None
    source = one.args[0]
    if source is not two.args[0] or not isinstance(source, fx.Node):
        return None
    chunked = called(source, "chunk")
    if chunked is not None and (one.args[1], two.args[1]) == (0, 1):
        given = dict(zip(("input", "chunks", "dim"), chunked[0], strict=False)) | chunked[1]
        x = given.pop("input", None)
        is_halved = given == {"chunks": 2, "dim": -1} and isinstance(x, fx.Node)
        return _Halves(x, False, (source, one, two)) if is_halved else None
    first, second = _last_slice(one.args[1]), _last_slice(two.args[1])
    if first is None or second is None:
        return None
    if (first, second) == (slice(None, None, 2), slice(1, None, 2)) or (
        (first, second) == (slice(0, None, 2), slice(1, None, 2))
    ):
        return _Halves(source, True, (one, two))
    if first.start not in (None, 0) or second.stop is not None or first.step or second.step:
        return None
    if type(first.stop) is int and first.stop > 0:
        is_same = type(second.start) is int and second.start == first.stop
        return _Halves(source, False, (one, two), (), first.stop) if is_same else None
    ends = (_half(first.stop, source), _half(second.start, source))
    if ends[0] is None or ends[1] is None:
        return None
    return _Halves(source, False, (one, two), (*ends[0], *ends[1]))


def _last_slice(index: Any) -> slice | None:
    is_last = isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis
    return index[1] if is_last and isinstance(index[1], slice) else None


def _half(bound: object, x: fx.Node) -> tuple[fx.Node, ...] | None:
    """Return the nodes that compute half of the last dimension's size, if `bound` is that; or None."""
    halved = arguments(bound, operator.floordiv)
    if halved is None or halved[1] != 2 or not isinstance(bound, fx.Node):
        return None
    size = halved[0]
    sized = called(size, "size")
    if sized is not None and isinstance(size, fx.Node):
        return (size, bound) if sized == ((x, -1), {}) else None
    of = arguments(size, operator.getitem)
    shape = None if of is None or of[1] != -1 else of[0]
    is_shape = isinstance(shape, fx.Node) and shape.target is getattr and shape.args == (x, "shape")
    return (shape, size, bound) if is_shape else None  # type: ignore[return-value]


def _doubled(node: object) -> fx.Node | None:
    """Return the node that proves that the second half of the last dimension repeats the first, or None."""
    while isinstance(node, fx.Node):
        pair = _pair_of(node, "cat", "concat", "concatenate")
        if pair is not None:
            return node if pair[0] is pair[1] else None
        scaled = arguments(node, operator.mul, torch.mul)
        if called(node, *_KEEPING) is not None or _is_number(scaled):
            node = node.args[0]
        elif node.target is operator.getitem:
            node = node.args[0] if _keeps_last(node.args[1]) else None
        else:
            unsqueezed = called(node, "unsqueeze")
            node = node.args[0] if unsqueezed is not None and unsqueezed[0][1:] in _UNSQUEEZED else None
    return None


_UNSQUEEZED = ((0,), (1,), (-2,), (-3,))


def _is_number(pair: tuple[Any, Any] | None) -> bool:
    return pair is not None and isinstance(pair[0], fx.Node) and type(pair[1]) in (int, float)


def _keeps_last(index: Any) -> bool:
    """Return True if an index keeps the last dimension: it selects rows or adds dimensions before it."""
    if not isinstance(index, tuple):
        return isinstance(index, slice | fx.Node) or index is None
    return index[-1] is Ellipsis or (isinstance(index[-1], slice) and index[-1] == slice(None))


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool, half: int | None
) -> torch.Tensor:
    """Return x rotated by the tables. Torch's operators compute calls that the kernel does not support."""
    pairs = x.shape[-1] // 2 if half is None else half
    if 2 * pairs != x.shape[-1] or refuses(x, cos, sin) is not None:
        return _in_torch(x, cos, sin, interleaved, pairs)
    dim = _dimension(x, cos)
    assert dim is not None
    one, two = (table[..., :pairs].reshape(x.shape[dim], pairs) for table in (cos, sin))
    return rotary(x, one, two, dim=dim, interleaved=interleaved)


def _in_torch(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool, pairs: int
) -> torch.Tensor:
    if interleaved:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    a, b = x[..., :pairs], x[..., pairs:]
    if cos.shape[-1] == x.shape[-1]:
        return x * cos + torch.cat((-b, a), -1) * sin
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def refuses(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> str | None:
    """Return why the kernel does not support these tensors, or None if it does."""
    if cos.shape != sin.shape or cos.shape[-1] not in (x.shape[-1], x.shape[-1] // 2) or x.shape[-1] % 2:
        return "its tables are not of half or all of the last dimension"
    if any(torch.promote_types(x.dtype, one.dtype) != x.dtype for one in (cos, sin)):
        return "its tables are of a wider type than its input, and the result too"
    return None if _dimension(x, cos) is not None else "its tables are not those of one dimension's positions"


def _dimension(x: torch.Tensor, table: torch.Tensor) -> int | None:
    """Return the dimension along which the tables' positions run, counted from the end, or None."""
    if table.dim() > x.dim() or x.dim() < 2:
        return None
    sizes = [1] * (x.dim() - table.dim()) + list(table.shape[:-1])
    long = [place for place, size in enumerate(sizes) if size != 1]
    if not long:
        long = [place for place, size in enumerate(x.shape[:-1]) if size == 1][-1:]
    if len(long) != 1 or x.shape[long[0]] != max(sizes):
        return None
    return long[0] - x.dim()
