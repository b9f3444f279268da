"""Floating-point instructions of PTX against exact fractions, rounded once by definition."""
# ruff: noqa: E501 - tables, with one case to a row

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from device_library import Array
from exact import FORMATS, array, fractions, rounded, samples
from ptx_cases import Case, case, check, module
from ptx_library import PtxDevice

INF, NAN = float("inf"), float("nan")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 1.5, INF, -INF, NAN, 1e-40, -1e-40], "float32")
FIRST, SECOND = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))

OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
}


def exact(operation: str, mode: str, kind: str) -> Case:
    """A case whose zeros are left out: their signs have their own test."""
    form, function = FORMATS[kind], OPERATIONS[operation]
    count = 3 if operation == "fma" else 2
    inputs = [samples(form, 10 * seed + len(mode + kind)) for seed in range(count)]
    rows = list(zip(*(fractions(values) for values in inputs), strict=True))
    keep = [all(row) and function(*row) != 0 for row in rows]
    exactly = [function(*row) for row, kept in zip(rows, keep, strict=True) if kept]
    kept_inputs = [values[keep] for values in inputs]
    signed = [rounded(value, form, mode) or (0.0 if value > 0 else -0.0) for value in exactly]
    operands = ", ".join(f"%{letter}" for letter in "abc"[:count])
    return case(f"{operation}.{mode}.{kind} %d, {operands};", array(signed, form), *kept_inputs)


def pairs(operation: str, kind: str) -> Case:
    """Both halves of a pair, each as it would be alone."""
    single = exact(operation, "rn", kind)
    words = [values.view("uint16").astype("uint32") for values in (*single.inputs, single.expected)]
    packed = [values | values[::-1] << 16 for values in words]
    body = single.body.replace(kind, f"{kind}x2")
    return case(body, packed[-1], *packed[:-1])


def ftz(values: Array) -> Array:
    return np.where(np.abs(values) < 2.0**-126, np.copysign(np.float32(0), values), values).astype("float32")


def larger(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b == 0:
        return b if math.copysign(1, a) < 0 else a
    return max(a, b)


def smaller(a: float, b: float) -> float:
    return -larger(-a, -b)


def floats(function: Callable[..., float], *inputs: Array) -> Array:
    rows = zip(*(values.tolist() for values in inputs), strict=True)
    return np.array([function(*row) for row in rows], inputs[0].dtype)


def root(value: Fraction, mode: str) -> Fraction | float:
    """Of a number that is no square: half a step above the integer root of a large multiple."""
    return rounded(Fraction(math.isqrt(int(value * 4**200)) * 2 + 1, 2**201), FORMATS["f32"], mode)


def clamp(values: Array) -> Array:
    return np.where(values > 0, np.minimum(values, 1), 0).astype("float32")


def nan_wins(function: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: NAN if math.isnan(a) or math.isnan(b) else function(a, b)


TINY = np.array([1e-38, -1e-38, 1e-39, 2e-38, 0.0, -0.0, 1.0], "float32")
SUM = floats(lambda a, b: a + b, FIRST, SECOND)
POSITIVE = np.abs(samples(FORMATS["f32"], 5)) + np.float32(1e-30)
MODEST = np.linspace(-3, 3, 61).astype("float32")

CASES = [
    *[exact(op, mode, "f32") for op in OPERATIONS for mode in ("rn", "rz", "rm", "rp")],
    *[exact(op, mode, "f64") for op in OPERATIONS for mode in ("rn", "rz", "rm", "rp")],
    *[exact(op, "rn", kind) for op in ("add", "sub", "mul", "fma") for kind in ("f16", "bf16")],
    *[pairs(op, kind) for op in ("add", "sub", "mul", "fma") for kind in ("f16", "bf16")],
    case("add.f32 %d, %a, %b;", SUM, FIRST, SECOND, name="add.f32 of special values"),
    case("add.rm.f32 %d, %a, %b;", np.array([-0.0, -0.0, 0.0, -0.0], "float32"),
         np.array([1, -1, 0, -0.0], "float32"), np.array([-1, 1, 0, 0], "float32"), name="zeros of add.rm"),
    case("add.ftz.f32 %d, %a, %b;", ftz(ftz(TINY) + ftz(TINY[::-1])), TINY, TINY[::-1].copy()),
    case("mul.ftz.f32 %d, %a, %b;", ftz(ftz(TINY) * np.float32(0.1)), TINY, np.full(7, 0.1, "float32")),
    case("add.sat.f32 %d, %a, %b;", clamp(SUM), FIRST, SECOND),
    case("fma.rn.sat.f32 %d, %a, %b, %b;", clamp(MODEST * np.float32(0.5) + np.float32(0.5)), MODEST, np.full(61, 0.5, "float32")),
    case("fma.rn.f16 %d, %a, %b, %c;", np.array([1.5 + 2.0**-10], "float16"), *(np.array([value], "float16") for value in (1 + 2.0**-10, 1.5, -(2.0**-24))), name="fma.rn.f16 rounds once"),
    case("fma.rn.relu.f16 %d, %a, %a, %b;", np.array([0.0, 3.0, 0.0], "float16"), np.array([1, 2, 0], "float16"), np.array([-2, -1, 0], "float16")),
    case("mad.rn.f32 %d, %a, %b, %a;", floats(lambda a: float(np.float32(a * 0.5 + a)), MODEST), MODEST, np.full(61, 0.5, "float32"), name="mad.f32"),
    *[case(f"{op}.f32 %d, %a, %b;", floats(function, FIRST, SECOND), FIRST, SECOND) for op, function in
      (("min", smaller), ("max", larger), ("min.NaN", nan_wins(smaller)), ("max.NaN", nan_wins(larger)))],
    case("max.f64 %d, %a, %b;", floats(larger, FIRST.astype("float64"), SECOND.astype("float64")), FIRST.astype("float64"), SECOND.astype("float64")),
    case("max.f16x2 %d, %a, %b;", np.array([0x3C004000], "uint32"), np.array([0x3C003800], "uint32"), np.array([0xBC004000], "uint32")),
    case("min.bf16 %d, %a, %b;", np.array([0xBF80], "uint16"), np.array([0x3F80], "uint16"), np.array([0xBF80], "uint16")),
    case("abs.f32 %d, %a;", np.abs(SPECIAL), SPECIAL),
    case("neg.f64 %d, %a;", -MODEST.astype("float64"), MODEST.astype("float64")),
    case("neg.f16x2 %d, %a;", np.array([0xBC00C000], "uint32"), np.array([0x3C004000], "uint32")),
    case("abs.bf16x2 %d, %a;", np.array([0x3F804000], "uint32"), np.array([0xBF80C000], "uint32")),
    case("copysign.f32 %d, %a, %b;", np.copysign(SECOND, FIRST), FIRST, SECOND),
    *[case(f"sqrt.{mode}.f32 %d, %a;", array([root(value, mode) for value in fractions(POSITIVE)], FORMATS["f32"]), POSITIVE)
      for mode in ("rz", "rp")],
    case("sqrt.rn.f64 %d, %a;", np.sqrt(POSITIVE.astype("float64")), POSITIVE.astype("float64")),
    case("rcp.rn.f32 %d, %a;", array([rounded(1 / v, FORMATS["f32"], "rn") for v in fractions(POSITIVE)], FORMATS["f32"]), POSITIVE),
    case("rcp.rz.f64 %d, %a;", array([rounded(1 / v, FORMATS["f64"], "rz") for v in fractions(POSITIVE)], FORMATS["f64"]), POSITIVE.astype("float64")),
    case("div.approx.f32 %d, %a, %b;", np.array([0.5, 0.0, 0.0, NAN], "float32"), np.array([1, 3, 1e38, INF], "float32"),
         np.array([2, 2.0**127, 2.0**127, 2.0**127], "float32")),
    *[case(f"{{ .reg .pred t; testp.{question}.f32 t, %a; selp.b32 %d, 1, 0, t; }}", answer.astype("uint32"), SPECIAL, name=f"testp.{question}")
      for question, answer in (("finite", np.isfinite(SPECIAL)), ("infinite", np.isinf(SPECIAL)), ("number", ~np.isnan(SPECIAL)),
                               ("notanumber", np.isnan(SPECIAL)), ("subnormal", np.array([False] * 8 + [True] * 2)),
                               ("normal", np.array([False, False, True, True, True, *[False] * 5])))],
]  # fmt: skip

CLOSE: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "rcp.approx.ftz.f32": (np.reciprocal, POSITIVE[POSITIVE < 1e37]),
    "sqrt.approx.f32": (np.sqrt, POSITIVE),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), POSITIVE),
    "ex2.approx.ftz.f32": (np.exp2, MODEST),
    "lg2.approx.f32": (np.log2, POSITIVE),
    "sin.approx.f32": (np.sin, MODEST),
    "cos.approx.f32": (np.cos, MODEST),
    "tanh.approx.f32": (np.tanh, MODEST),
    "rsqrt.approx.f64": (lambda x: 1 / np.sqrt(x), POSITIVE.astype("float64")),
    "tanh.approx.f16": (np.tanh, MODEST.astype("float16")),
    "ex2.approx.f16": (np.exp2, MODEST.astype("float16")),
}
APPROXIMATE = [
    case(f"{name} %d, %a;", function(values.astype("float64")).astype(values.dtype), values)
    for name, (function, values) in CLOSE.items()
]


@pytest.fixture(scope="module")
def device() -> PtxDevice:
    return module("ptx_floats", [*CASES, *APPROXIMATE])


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_instruction(device: PtxDevice, number: int) -> None:
    check(device, number, CASES[number])


@pytest.mark.parametrize("number", range(len(APPROXIMATE)), ids=lambda n: APPROXIMATE[n].name)
def test_approximation(device: PtxDevice, number: int) -> None:
    chosen = APPROXIMATE[number]
    inputs = [device.array(values, values.dtype.name) for values in chosen.inputs]
    result = device.empty(len(chosen.expected), chosen.expected.dtype.name)
    device.launch(f"case_{len(CASES) + number}_", 1, len(chosen.expected), *inputs, result)
    documented = {"tanh.approx.f32": 2.0**-11, "sin.approx.f32": 4e-6, "cos.approx.f32": 4e-6}
    tolerance = documented.get(list(CLOSE)[number], 2e-3 if result.dtype == np.float16 else 1e-6)
    np.testing.assert_allclose(result, chosen.expected, rtol=tolerance, atol=tolerance)
