"""Elementwise operators, as C++ formulas over their operands' elements."""

import math
from itertools import combinations
from typing import Any

from agent.compose.body import C_TYPES
from agent.compose.declined import Declined
from agent.compose.dims import Dim, Index, times
from agent.compose.kernel import Kernel
from agent.compose.tracing import Node, Varying
from agent.compose.values import Pointwise, Value, broadcast

UNARY = {
    "neg": "-{0}", "abs": "fabsf({0})", "exp": "expf({0})", "exp2": "exp2f({0})", "expm1": "expm1f({0})",
    "log": "logf({0})", "log2": "log2f({0})", "log10": "log10f({0})", "log1p": "log1pf({0})",
    "sqrt": "sqrtf({0})", "rsqrt": "(1.0f / sqrtf({0}))", "reciprocal": "(1.0f / {0})", "sin": "sinf({0})",
    "cos": "cosf({0})", "tan": "tanf({0})", "asin": "asinf({0})", "acos": "acosf({0})",
    "atan": "atanf({0})", "sinh": "sinhf({0})", "cosh": "coshf({0})", "tanh": "tanhf({0})",
    "asinh": "asinhf({0})", "acosh": "acoshf({0})", "atanh": "atanhf({0})", "erf": "erff({0})",
    "erfc": "erfcf({0})", "sigmoid": "(1.0f / (1.0f + expf(-{0})))", "floor": "floorf({0})",
    "ceil": "ceilf({0})", "trunc": "truncf({0})", "round": "rintf({0})",
    "sign": "float(({0} > 0) - ({0} < 0))", "relu": "({0} < 0 ? 0.0f : {0})",
    "erfinv": "erfinvf({0})", "lgamma": "lgammaf({0})",
    "silu": "({0} / (1.0f + expf(-{0})))",
    "gelu_none": "(0.5f * {0} * (1.0f + erff({0} * 0.70710678f)))",
    "gelu_tanh": "(0.5f * {0} * (1.0f + tanhf(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0}))))",
}  # fmt: skip
"""Formulas for floats. Those for integers are in WHOLE."""
WHOLE = {
    "neg": "-{0}", "abs": "({0} < 0 ? -{0} : {0})", "sign": "(({0} > 0) - ({0} < 0))",
    "relu": "({0} < 0 ? 0 : {0})", "bitwise_not": "~{0}",
}  # fmt: skip
LOGICAL = {
    "logical_not": "!{0}", "isnan": "({0} != {0})", "isinf": "(fabsf({0}) == INFINITY)",
    "logical_and": "({0} && {1})", "logical_or": "({0} || {1})", "logical_xor": "(!{0} != !{1})",
    "eq": "({0} == {1})", "ne": "({0} != {1})", "lt": "({0} < {1})", "le": "({0} <= {1})",
    "gt": "({0} > {1})", "ge": "({0} >= {1})", "signbit": "(copysignf(1.0f, {0}) < 0)",
}  # fmt: skip
"""Formulas with a bool result. Operands are compared in their common dtype."""
BINARY = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "rsub": "({1} - {0})",
    "mul": "({0} * {1})", "div": "({0} / {1})",
    "maximum": "({0} != {0} || {0} > {1} ? {0} : {1})", "minimum": "({0} != {0} || {0} < {1} ? {0} : {1})",
    "pow": "powf({0}, {1})", "atan2": "atan2f({0}, {1})", "fmod": "fmodf({0}, {1})",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
    "hypot": "hypotf({0}, {1})", "copysign": "copysignf({0}, {1})",
    "fmax": "fmaxf({0}, {1})", "fmin": "fminf({0}, {1})",
    "remainder": "({0} - {1} * floorf({0} / {1}))",
}  # fmt: skip
_WHOLE_BINARY = {
    "floor_divide": "floor_of({0}, {1})", "remainder": "({0} - {1} * floor_of({0}, {1}))",
    "fmod": "({0} % {1})", **dict.fromkeys(("__rshift__", "bitwise_right_shift"), "({0} >> {1})"),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), "({0} << {1})"),
}  # fmt: skip
FLOATS = ("float32", "float64", "float16", "bfloat16")
_DEAR = frozenset(
    name for name, text in {**UNARY, **BINARY}.items() if "(" in text.replace("({0}", "").replace("(1", "")
)


def number(value: Any, dtype: str, kernel: Kernel) -> str:
    """Return a number of the trace as C++. A number that depends on sizes is computed from them."""
    if isinstance(value, Varying):
        return _varying(value, kernel) if dtype in FLOATS else _whole(value, dtype, kernel)
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in FLOATS:
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        if math.isnan(value):
            return "NAN"
        if abs(value) > 3.4028234e38:
            return "INFINITY" if value > 0 else "-INFINITY"
        return f"{float(value)!r}f" if dtype != "float64" else repr(float(value))
    return f"int64_t({int(value)})" if dtype == "int64" else str(int(value))


def _whole(value: Varying, dtype: str, kernel: Kernel) -> str:
    if all(isinstance(size, int) and size > 0 for size in value.values):
        return f"{C_TYPES[dtype]}({kernel.size(tuple(int(size) for size in value.values))})"
    raise Declined(f"the number {value.values[0]:g} follows from no size")


_FORMS: tuple[tuple[float, str], ...] = (
    (1, "float({})"), (-1, "(1.0f / float({}))"), (0.5, "sqrtf(float({}))"),
    (-0.5, "(1.0f / sqrtf(float({})))"), (-0.25, "(1.0f / sqrtf(sqrtf(float({}))))"),
)  # fmt: skip
"""Powers of a size that a number of the trace may be."""


def _varying(value: Varying, kernel: Kernel) -> str:
    for power, text in _FORMS:
        found = [abs(v) ** (1 / power) if v else 0.0 for v in value.values]
        if min(value.values) >= 0 and all(abs(size - round(size)) < 1e-5 * size for size in found):
            size = tuple(round(size) for size in found)
            if kernel.known_sizes.found(size) is not None:
                return text.format(kernel.size(size))
    return _proportional(value, kernel)


def _proportional(value: Varying, kernel: Kernel) -> str:
    """Return a number as a literal times a power of a size, or of a product of two sizes."""
    known = [*kernel.known_sizes.known()]
    pairs = [times(pair, len(value.values)) for pair in combinations(known, 2)]
    for size in (*known, *pairs):
        for power, text in _FORMS:
            factors = [v / s**power for v, s in zip(value.values, size, strict=True)]
            if all(abs(factor - factors[0]) <= 1e-9 * abs(factors[0]) for factor in factors):
                return f"({factors[0]!r}f * {text.format(kernel.size(size))})"
    raise Declined(f"the number {value.values[0]:g} follows from no size")


def converted(text: str, given: str, wanted: str) -> str:
    """Return an expression converted to another dtype."""
    if given == wanted:
        return text
    if wanted == "bool":
        return f"({text} != 0)"
    return f"{C_TYPES[wanted]}({text})"


def template(name: str, operands: list[str], result: str) -> str | None:
    """Return the formula of an operator, chosen by the dtypes of the operands and the result."""
    if name in LOGICAL:
        return LOGICAL[name]
    if result in FLOATS:
        return UNARY.get(name) or BINARY.get(name)
    # Before WHOLE: in C, ~ of a bool is never false.
    if result == "bool" and name in ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"):
        return {
            "bitwise_not": "!{0}", "bitwise_and": "({0} && {1})", "bitwise_or": "({0} || {1})",
            "bitwise_xor": "({0} != {1})",
        }[name]  # fmt: skip
    if name in WHOLE and len(operands) == 1:
        return WHOLE[name]
    if name in _WHOLE_BINARY:
        return _WHOLE_BINARY[name]
    return None if name in ("div", "pow", "atan2", "fmod", "fmax", "fmin") else BINARY.get(name)


def common(dtypes: list[str]) -> str:
    """Return the dtype in which numbers of several dtypes are compared."""
    if {"float16", "bfloat16"} <= set(dtypes) and not {"float64", "float32"} & set(dtypes):
        return "float32"
    for dtype in (
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "uint8",
        "int8",
        "bool",
    ):
        if dtype in dtypes:
            return dtype
    raise Declined(f"numbers of {dtypes[0]} are not computed with yet")


def applied(
    text: str, operands: list[Any], shape: tuple[Dim, ...], dtype: str, about: str = "", work: int = 1
) -> Pointwise:
    """Return the value of the formula `text` on the elements of operands, which are values and numbers."""
    return computed(text, operands, (shape, dtype), dtype, about, work)


def computed(
    text: str, operands: list[Any], result: tuple[tuple[Dim, ...], str], of: str, about: str, work: int
) -> Pointwise:
    """Return the same as `applied`, with operands converted to the dtype `of` instead of the result's."""
    shape, dtype = result
    values = tuple(operand for operand in operands if isinstance(operand, Value))

    def element(kernel: Kernel, index: Index) -> str:
        parts = []
        for operand in operands:
            if isinstance(operand, Value):
                one = kernel.at(operand, broadcast(operand, shape, index))
                parts.append(converted(one, operand.dtype, of))
            else:
                parts.append(number(operand, of, kernel))
        return text.format(*parts)

    return Pointwise(shape, dtype, about, values, element, work)


def lower(node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Value | None:
    """Return the value of an operator of this kind, or None for any other."""
    shape, dtype = node.shapes[0], node.dtypes[0]
    known = name in LOGICAL or name in UNARY or name in BINARY or name in WHOLE or name in _WHOLE_BINARY
    if not known:
        return None
    if name == "round" and kwargs.get("decimals", 0):
        raise Declined("round to decimals is not composed yet")
    operands = args[
        : 1 if name in UNARY or name in WHOLE or name in ("logical_not", "isnan", "isinf", "signbit") else 2
    ]
    text = template(name, [_dtype(operand) for operand in operands], dtype)
    if text is None:
        return None
    inside = dtype
    if name in LOGICAL:
        inside = common([_dtype(operand) for operand in operands])
    alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
    if name in ("add", "sub", "rsub") and alpha != 1:
        scaled = "{1}" if name != "rsub" else "{0}"
        text = text.replace(scaled, f"{scaled} * {{2}}")
        operands = [*operands, alpha]
    return computed(text, operands, (shape, dtype), inside, name, 8 if name in _DEAR else 1)


def _dtype(operand: Any) -> str:
    if isinstance(operand, Value):
        return operand.dtype
    return "bool" if isinstance(operand, bool) else "int8" if isinstance(operand, int) else "float32"
