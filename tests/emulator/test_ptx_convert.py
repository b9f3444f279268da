"""cvt, comparisons and selections of PTX against their definitions."""
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
PLAIN = np.array(
    [0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.2, 127.5, 300, -300, 70000, 3e9, -3e9, 1e19, -1e19, 4e19]
)
ODD = np.array([*PLAIN, INF, -INF, NAN], "float32")
ROUND: dict[str, Callable[[float], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}
NUMPY = {"s8": "int8", "u8": "uint8", "s16": "int16", "u16": "uint16", "s32": "int32", "u32": "uint32", "s64": "int64",
         "u64": "uint64", "f32": "float32", "f64": "float64"}  # fmt: skip
INTEGERS = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 65535, 2**24 + 1, 2**31 - 1, -(2**31), 2**53 + 1,
                     2**62 + 12345, 2**63 - 1, -(2**63) + 1], "int64")  # fmt: skip


def limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def to_integer(mode: str, kind: str, source: str) -> Case:
    least, most = limits(kind)
    of_nan = (
        0 if source == "f32" and kind[1:] != "64" else -(2**63) if kind == "s64" else 2 ** (int(kind[1:]) - 1)
    )
    if of_nan > most:
        of_nan -= 2 ** int(kind[1:])
    values = ODD.astype(NUMPY[source])

    def converted(value: float) -> int:
        if math.isnan(value):
            return of_nan
        return max(
            least, min(most, ROUND[mode](value) if math.isfinite(value) else most if value > 0 else least)
        )

    expected = np.array([converted(value) for value in values.tolist()], NUMPY[kind])
    register = "%d" if kind[1:] in ("32", "64") else "%w"
    body = f"cvt.{mode}.{kind}.{source} {register}, %a;"
    if register == "%w":  # a narrow result lies in a wider register, with its sign
        expected = expected.astype("int32").view("uint32")
        body = f"{{ .reg .b32 %w; {body} mov.b32 %d, %w; }}"
    return case(body, expected, values, name=f"cvt.{mode}.{kind}.{source}")


def from_integer(mode: str, kind: str, source: str) -> Case:
    least, most = limits(source)
    values = np.array([int(v) for v in INTEGERS if least <= v <= most] + [most, most - 1], NUMPY[source])
    form = FORMATS[kind]
    expected = array([rounded(Fraction(int(value)), form, mode) for value in values.tolist()], form)
    return case(f"cvt.{mode}.{kind}.{source} %d, %a;", expected, values)


def between_floats(mode: str, kind: str, source: str) -> Case:
    values = samples(FORMATS[source], 3, 200)
    values = values[[bool(value) for value in fractions(values)]]
    form = FORMATS[kind]
    exact = [rounded(value, form, mode) or (0.0 if value > 0 else -0.0) for value in fractions(values)]
    return case(f"cvt.{mode}.{kind}.{source} %d, %a;", array(exact, form), values)


def integral(mode: str, kind: str) -> Case:
    values = ODD.astype(NUMPY[kind])
    finite = [math.copysign(ROUND[mode](v), v) if math.isfinite(v) else v for v in values.tolist()]
    return case(f"cvt.{mode}.{kind}.{kind} %d, %a;", np.array(finite, NUMPY[kind]), values)


def integers(result: str, source: str, saturate: bool = False) -> Case:
    least, most = limits(result)
    values = np.array([int(v) for v in INTEGERS], "int64").astype(NUMPY[source])
    wide = [max(least, min(most, v)) if saturate else v for v in values.tolist()]
    dtype = np.dtype(NUMPY[result])
    expected = np.array([(v - least) % (most - least + 1) + least for v in wide], dtype)
    sat = "sat." if saturate else ""
    return case(f"cvt.{sat}{result}.{source} %d, %a;", expected, values)


def packed(kind: str, mode: str = "rn", more: str = "") -> Case:
    step = 2.0 ** -FORMATS[kind].fraction_bits
    halfway = np.array([1 + step / 2, 1 + 3 * step / 2, -1 - step / 2, 1 + step / 2 + 1e-6], "float32")
    low, high = (np.append(samples(FORMATS["f32"], seed), halfway) for seed in (21, 22))
    halves = []
    for values in (low, high):
        exact = [rounded(Fraction(0) if more and v < 0 else v, FORMATS[kind], mode) or (0.0 if more or v > 0 else -0.0)
                 for v in fractions(values)]  # fmt: skip
        halves.append(array(exact, FORMATS[kind]).view("uint16").astype("uint32"))
    return case(f"cvt.{mode}{more}.{kind}x2.f32 %d, %b, %a;", halves[0] | halves[1] << 16, low, high)


COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
FIRST, SECOND = (
    grid.ravel() for grid in np.meshgrid(ODD[[0, 1, 2, 6, 18, 19, 20]], ODD[[0, 1, 2, 6, 18, 19, 20]])
)


def comparison(name: str, kind: str) -> Case:
    """Ordered comparisons are false for NaN, those with a `u` true; kinds of integers are compared too."""
    first, second = FIRST, SECOND
    if kind[0] in "su":
        first, second = (
            np.array([int(v) for v in np.resize(INTEGERS, 49)][::step]).astype(NUMPY[kind])
            for step in (1, -1)
        )
    function = COMPARE[name.removesuffix("u")] if name not in ("num", "nan") else None
    answers = []
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        unordered = math.isnan(a) or math.isnan(b)
        if function is None:
            answers.append(unordered == (name == "nan"))
        else:
            answers.append(name.endswith("u") if unordered else function(a, b))
    body = f"{{ .reg .pred t; setp.{name}.{kind} t, %a, %b; selp.b32 %d, 1, 0, t; }}"
    return case(body, np.array(answers, "uint32"), first, second, name=f"setp.{name}.{kind}")


ONE, TWO = np.array([1, 2, 3, 4], "int32"), np.array([2, 2, 2, 4], "int32")
LESS = np.array([1, 0, 0, 0], "uint32")
HALVES = np.array([0x3C003C00, 0x3C004000, 0x7E003C00], "uint32")
OTHER = np.array([0x3C004000, 0x3C004000, 0x7E003C00], "uint32")

HALFWAY = np.array([0x3F801000, 0x3F803000, 0xBF801001, 0x7F800000], "uint32")

CASES = [
    case("cvt.rna.tf32.f32 %d, %a;", np.array([0x3F802000, 0x3F804000, 0xBF802000, 0x7F800000], "uint32"), HALFWAY.view("float32"), name="cvt.rna.tf32"),
    case("cvt.rn.tf32.f32 %d, %a;", np.array([0x3F800000, 0x3F804000, 0xBF802000, 0x7F800000], "uint32"), HALFWAY.view("float32"), name="cvt.rn.tf32"),
    case("cvt.rz.tf32.f32 %d, %a;", np.array([0x3F800000, 0x3F802000, 0xBF800000, 0x7F800000], "uint32"), HALFWAY.view("float32"), name="cvt.rz.tf32"),
    *[to_integer(mode, kind, source) for mode in ROUND for kind in ("s8", "u8", "s16", "s32", "u32", "s64", "u64") for source in ("f32", "f64") if kind[1:] != "64" or mode in ("rni", "rzi")],
    *[from_integer(mode, kind, source) for mode in ("rn", "rz", "rm", "rp") for kind in ("f32", "f64") for source in ("s32", "u32", "s64", "u64")],
    *[from_integer("rn", kind, "s16") for kind in ("f16", "bf16")],
    from_integer("rn", "f16", "u64"),
    *[between_floats(mode, kind, source) for mode in ("rn", "rz", "rm", "rp") for kind, source in (("f32", "f64"), ("f16", "f32"), ("bf16", "f32"))],
    between_floats("rn", "f16", "f64"),
    *[case(f"cvt.{kind}.{source} %d, %a;", array(fractions(samples(FORMATS[source], 2)), FORMATS[kind]), samples(FORMATS[source], 2))
      for kind, source in (("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16"))],
    *[integral(mode, kind) for mode in ROUND for kind in ("f32", "f64")],
    *[integers(*kinds) for kinds in (("s64", "s32"), ("s64", "u32"), ("u32", "u64"), ("s32", "s16"), ("u32", "u16"), ("u16", "u32"), ("s32", "s8"), ("u64", "s32"))],
    *[integers(*kinds, saturate=True) for kinds in (("s16", "s32"), ("u16", "s32"), ("s32", "s64"), ("u32", "s64"), ("s32", "u64"))],
    case("cvt.sat.f32.f32 %d, %a;", np.array([0 if not v > 0 else min(v, 1) for v in ODD.tolist()], "float32"), ODD),
    case("cvt.ftz.f32.f16 %d, %a;", np.array([2.0**-24, 1], "float32"), np.array([2.0**-24, 1], "float16")),
    packed("f16"), packed("bf16"), packed("f16", "rz"), packed("bf16", "rn", ".relu"),
    *[comparison(name, "f32") for name in (*COMPARE, *(f"{n}u" for n in COMPARE), "num", "nan")],
    *[comparison(name, kind) for name in COMPARE for kind in ("s32", "u32", "s64", "u64", "s16")],
    *[case(f"{{ .reg .pred t; setp.{name}.u32 t, %a, %b; selp.b32 %d, 1, 0, t; }}", np.array(answer, "uint32"),
           np.array([1, 2, 2**31], "uint32"), np.array([2, 2, 1], "uint32"), name=f"setp.{name}")
      for name, answer in (("lo", [1, 0, 0]), ("ls", [1, 1, 0]), ("hi", [0, 0, 1]), ("hs", [0, 1, 1]))],
    case("{ .reg .pred s, t, u; setp.eq.s32 u, %a, 3; setp.lt.or.s32 s|t, %a, %b, u; selp.b32 %d, 2, 0, s; @t add.u32 %d, %d, 1; }",
         np.array([2, 1, 3, 1], "uint32"), ONE, TWO, name="setp with a second predicate"),
    case("{ .reg .pred s, u; setp.eq.s32 u, %a, 3; setp.lt.and.s32 s, %a, %b, !u; selp.b32 %d, 1, 0, s; }", LESS, ONE, TWO, name="setp.and"),
    case("{ .reg .pred s, t; setp.lt.f16x2 s|t, %a, %b; selp.b32 %d, 1, 0, s; @t add.u32 %d, %d, 2; }", np.array([1, 0, 0], "uint32"), HALVES, OTHER, name="setp.f16x2"),
    case("set.lt.u32.s32 %d, %a, %b;", LESS * np.uint32(2**32 - 1), ONE, TWO),
    case("set.lt.f32.s32 %d, %a, %b;", LESS.astype("float32"), ONE, TWO),
    case("set.eq.f16x2.f16x2 %d, %a, %b;", np.array([0x3C000000, 0x3C003C00, 0x00003C00], "uint32"), HALVES, OTHER),
    case("set.equ.u32.f16x2 %d, %a, %b;", np.array([0xFFFF0000, 0xFFFFFFFF, 0xFFFFFFFF], "uint32"), HALVES, OTHER),
    case("slct.f32.s32 %d, %a, %b, %c;", np.array([1, 6], "float32"), np.array([1, 2], "float32"), np.array([5, 6], "float32"), np.array([0, -1], "int32")),
    case("{ .reg .pred t; setp.ne.s32 t, %a, 2; selp.f64 %d, 0d3FF0000000000000, 0dBFF0000000000000, t; }", np.array([1, -1, 1, 1], "float64"), ONE, name="selp.f64"),
]  # fmt: skip


@pytest.fixture(scope="module")
def device() -> PtxDevice:
    return module("ptx_convert", CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_instruction(device: PtxDevice, number: int) -> None:
    check(device, number, CASES[number])


def test_the_reference_rounds_as_numpy_does() -> None:
    """The exact rounding that everything above relies on, against another implementation."""
    values: Array = samples(FORMATS["f64"], 1, 400)
    values = values[np.abs(values) < 1e30]
    ours = array([rounded(value, FORMATS["f32"], "rn") for value in fractions(values)], FORMATS["f32"])
    np.testing.assert_array_equal(ours, values.astype("float32"))
