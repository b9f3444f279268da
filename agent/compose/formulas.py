"""Operators whose formula depends on their settings, and operators that only create or convert numbers."""

from collections.abc import Callable
from typing import Any

from agent.compose.dims import Index
from agent.compose.kernel import Kernel
from agent.compose.pointwise import FLOATS, UNARY, applied, converted, number
from agent.compose.tracing import Node
from agent.compose.values import Pointwise, Value, broadcast

Arguments = list[Any]
Named = dict[str, Any]
_POWERS = {
    2: "({0} * {0})", 0.5: "sqrtf({0})", 3: "({0} * {0} * {0})", -1: "(1.0f / {0})",
    -0.5: "(1.0f / sqrtf({0}))", 1: "{0}",
}  # fmt: skip


def lower(node: Node, name: str, args: Arguments, kwargs: Named) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    made = _FORMULAS.get(name)
    return made(node, args, kwargs) if made else None


def _gelu(node: Node, args: Arguments, kwargs: Named) -> Value:
    text = UNARY[f"gelu_{kwargs.get('approximate', 'none')}"]
    return applied(text, args[:1], node.shapes[0], node.dtypes[0], "gelu", 12)


def _leaky_relu(node: Node, args: Arguments, kwargs: Named) -> Value:
    slope = args[1] if len(args) > 1 else 0.01
    text = "({0} > 0 ? {0} : {0} * {1})"
    return applied(text, [args[0], slope], node.shapes[0], node.dtypes[0], "leaky_relu")


def _elu(node: Node, args: Arguments, kwargs: Named) -> Value:
    settings = [*args[1:], *[1] * (4 - len(args))]
    text = "({0} > 0 ? {0} * {2} : expm1f({0} * {3}) * ({1} * {2}))"
    return applied(text, [args[0], *settings], node.shapes[0], node.dtypes[0], "elu", 10)


def _clamp(node: Node, args: Arguments, kwargs: Named) -> Value:
    given = [*args[1:], *[None] * (3 - len(args))]
    least, most = (None, given[0]) if "clamp_max" in node.op else given[:2]
    if "hardtanh" in node.op:
        least, most = -1.0 if least is None else least, 1.0 if most is None else most
    least, most = kwargs.get("min", least), kwargs.get("max", most)
    text, bounds = "{0}", [bound for bound in (least, most) if bound is not None]
    if least is not None:
        text = "({0} < {1} ? {1} : {0})"
    if most is not None:
        place = f"{{{len(bounds)}}}"
        text = f"({text} > {place} ? {place} : {text})"
    return applied(text, [args[0], *bounds], node.shapes[0], node.dtypes[0], "clamp", 2)


def _pow(node: Node, args: Arguments, kwargs: Named) -> Value | None:
    if isinstance(args[0], Value) and not isinstance(args[1], Value) and args[1] in _POWERS:
        return applied(_POWERS[args[1]], args[:1], node.shapes[0], node.dtypes[0], "pow", 4)
    return None


def _div(node: Node, args: Arguments, kwargs: Named) -> Value | None:
    rounding, dtype = kwargs.get("rounding_mode"), node.dtypes[0]
    if rounding is None:
        return None
    of_floats = {"floor": "floorf({0} / {1})", "trunc": "truncf({0} / {1})"}
    of_whole = {"floor": "floor_of({0}, {1})", "trunc": "({0} / {1})"}
    text = (of_floats if dtype in FLOATS else of_whole)[rounding]
    return applied(text, args[:2], node.shapes[0], dtype, "div", 8)


def _same(node: Node, args: Arguments, kwargs: Named) -> Value:
    source = args[0]
    if isinstance(source, Value) and source.dtype == node.dtypes[0]:
        return source
    return applied("{0}", args[:1], node.shapes[0], node.dtypes[0])


def _filled(place: int) -> Callable[[Node, Arguments, Named], Value]:
    return lambda node, args, kwargs: applied("{0}", [args[place]], node.shapes[0], node.dtypes[0])


def _constant(value: float) -> Callable[[Node, Arguments, Named], Value]:
    return lambda node, args, kwargs: applied("{0}", [value], node.shapes[0], node.dtypes[0])


def _where(node: Node, args: Arguments, kwargs: Named) -> Value:
    condition, yes, no = args
    shape, dtype = node.shapes[0], node.dtypes[0]

    def element(kernel: Kernel, index: Index) -> str:
        def part(operand: Any) -> str:
            if not isinstance(operand, Value):
                return number(operand, dtype, kernel)
            return converted(kernel.at(operand, broadcast(operand, shape, index)), operand.dtype, dtype)

        test = kernel.at(condition, broadcast(condition, shape, index))
        return f"({test} ? {part(yes)} : {part(no)})"

    values = tuple(operand for operand in args if isinstance(operand, Value))
    return Pointwise(shape, dtype, "where", values, element)


_FORMULAS: dict[str, Callable[[Node, Arguments, Named], Value | None]] = {
    "gelu": _gelu, "leaky_relu": _leaky_relu, "elu": _elu, "pow": _pow, "div": _div, "where": _where,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "hardtanh"), _clamp),
    **dict.fromkeys(
        ("_to_copy", "convert_element_type", "clone", "contiguous", "alias", "detach", "lift_fresh_copy"),
        _same,
    ),
    **dict.fromkeys(("full", "full_like", "fill"), _filled(1)), "scalar_tensor": _filled(0),
    **dict.fromkeys(("zeros", "zeros_like"), _constant(0)),
    **dict.fromkeys(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"), _constant(0)),
    "copy": _filled(1),
    **dict.fromkeys(("ones", "ones_like"), _constant(1)),
}  # fmt: skip
