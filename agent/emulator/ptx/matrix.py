"""Tensor core instructions: mma, wmma, ldmatrix, stmatrix and movmatrix.

All dense shapes of sm_80 to sm_90 are supported, except mma.m8n8k4 of f16, which these GPUs do not have in
hardware. Sparse shapes are not supported.
"""

from dataclasses import dataclass

from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import Operand
from agent.emulator.ptx.types import TYPES, Type

_B32, _B64, _S64 = TYPES["b32"], TYPES["b64"], TYPES["s64"]


@dataclass(frozen=True)
class _Element:
    cpp: str
    bits: int


ELEMENTS = {
    "f16": _Element("F16", 16), "bf16": _Element("Bf16", 16), "tf32": _Element("Tf32", 32),
    "f64": _Element("F64", 64), "e4m3": _Element("E4m3", 8), "e5m2": _Element("E5m2", 8),
    "s8": _Element("S8", 8), "u8": _Element("U8", 8), "s4": _Element("S4", 4), "u4": _Element("U4", 4),
    "b1": _Element("B1", 1),
}  # fmt: skip
SUMS = {
    "f16": _Element("Half", 16),
    "f32": _Element("Float", 32),
    "f64": _Element("Double", 64),
    "s32": _Element("Int", 32),
}
_MMA = {
    "f16": ("m16n8k8", "m16n8k16"), "bf16": ("m16n8k8", "m16n8k16"), "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), "8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "4": ("m8n8k32", "m16n8k32", "m16n8k64"), "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
    "fp8": ("m16n8k16", "m16n8k32"),
}  # fmt: skip
_SQUARE = ("m16n16k16", "m8n32k16", "m32n8k16")
_WMMA = {
    "f16": _SQUARE, "bf16": _SQUARE, "8": _SQUARE, "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
    "4": ("m8n8k32",), "b1": ("m8n8k128",),
}  # fmt: skip
FAMILIES = {"s8": "8", "u8": "8", "s4": "4", "u4": "4", "e4m3": "fp8", "e5m2": "fp8"}
_ALLOWED_SUMS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    "fp8": ("f16", "f32"),
}
_MODES = {"xor": "kXor", "and": "kAnd"}


def mma(step: Step) -> str:
    """Translate mma.sync of a dense shape."""
    _aligned(step)
    if not (step.flag("row") and step.flag("col")):
        raise step.unknown()
    return _product(step, _MMA, "kMma")


def wmma(step: Step) -> str:
    kind = step.choice("load", "store", "mma")
    _aligned(step)
    if kind == "mma":
        step.choice("row", "col")
        step.choice("row", "col")
        return _product(step, _WMMA, "kWmma")
    if kind is None:
        raise step.unknown()
    return _tile(step, stores=kind == "store")


def rows(step: Step) -> str:
    """Translate ldmatrix and stmatrix of 8 x 8 elements of 16 bits."""
    stores = step.instruction.opcode == "stmatrix"
    _aligned(step)
    count = {"x1": 1, "x2": 2, "x4": 4, None: 0}[step.choice("x1", "x2", "x4")]
    flip = step.flag("trans")
    space = step.choice("shared::cta", "shared") or ""
    if not (count and step.flag("m8n8") and step.flag("b16")):
        raise step.unknown()
    step.several(2)
    address = step.frame.address(step.operands[0 if stores else 1], space.split("::")[0])
    registers = parts(step, step.operands[1 if stores else 0], count)
    brought = ", ".join(step.frame.read(part, _B32) for part in registers) if stores else ""
    kind = f"matrix::RowsMoved<{count}, {_truth(flip)}, {_truth(stores)}>"
    line = step.instruction.place.line
    code = (
        f"matrix::Rows rows = {{{address}, {{{brought}}}, nullptr}}; matrix::move_rows<{kind}>(rows, {line});"
    )
    if not stores:
        code += "".join(
            " " + step.frame.write(part, _B32, f"rows.d[{i}]") for i, part in enumerate(registers)
        )
    step.frame.features.add("matrix")
    return f"{{ {code} }}"


def flip(step: Step) -> str:
    """Translate movmatrix."""
    _aligned(step)
    step.several(2)
    if not (step.flag("m8n8") and step.flag("trans") and step.flag("b16")):
        raise step.unknown()
    step.frame.features.add("matrix")
    return step.write(_B32, f"matrix::flip({step.read(1, _B32)}, {step.instruction.place.line})")


def _aligned(step: Step) -> None:
    if not step.flag("sync"):
        raise step.unknown()
    step.flag("aligned")


def _truth(value: bool) -> str:
    return "true" if value else "false"


def parts(step: Step, operand: Operand, count: int) -> tuple[Operand, ...]:
    parts = operand.parts if operand.kind == "vector" else (operand,)
    if len(parts) != count:
        raise step.unknown()
    return parts


def _sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _shape(step: Step, shapes: dict[str, tuple[str, ...]], element: str) -> tuple[int, int, int]:
    shape = step.choice(*shapes.get(FAMILIES.get(element, element), ()))
    if shape is None:
        raise step.unknown()
    return _sizes(shape)


def _types(step: Step) -> tuple[str, str, str, str]:
    """Return the types of D, A, B and C. wmma of f16 names only D and C; all other forms name all four."""
    left = [name for name in step.instruction.modifiers if name in ELEMENTS or name in SUMS]
    if len(left) == 2:  # wmma of f16: the types of the factors are implied
        left = [left[0], "f16", "f16", left[1]]
    else:
        for name in left[1:3]:
            step.flag(name)
    if (
        len(left) != 4
        or left[0] not in SUMS
        or left[3] not in SUMS
        or not {left[1], left[2]} <= set(ELEMENTS)
    ):
        raise step.unknown()
    step.flag(left[0])
    step.flag(left[3])
    return left[0], left[1], left[2], left[3]


def _product(step: Step, shapes: dict[str, tuple[str, ...]], layout: str) -> str:
    step.several(4)
    d, a, b, c = _types(step)
    m, n, k = _shape(step, shapes, a)
    family = FAMILIES.get(a, a)
    allowed = _ALLOWED_SUMS.get(family, ("s32",))
    if family != FAMILIES.get(b, b) or d not in allowed or c not in allowed:
        raise step.unknown()
    mode = "kMultiply"
    if family == "b1":
        mode = _MODES.get(step.choice(*_MODES) or "", "")
        if not (mode and step.flag("popc")):
            raise step.unknown()
    elif family in ("8", "4", "f16") and step.flag("satfinite") and family != "f16":
        mode = "kMultiplySaturating"
    first, second = ELEMENTS[a], ELEMENTS[b]
    twice = 2 if layout == "kWmma" and a == "f16" else 1
    in_a, in_b = _in_lane(m * k, twice), _in_lane(k * n, twice)
    registers = [
        _registers(m * n // 32, SUMS[d]),
        _registers(in_a, first),
        _registers(in_b, second),
        _registers(m * n // 32, SUMS[c]),
    ]
    targets, *sources = (parts(step, o, count) for o, count in zip(step.operands, registers, strict=True))
    values = [
        "{" + ", ".join(step.frame.read(part, _word(bits)) for part in brought) + "}"
        for brought, bits in zip(sources, (first.bits, second.bits, SUMS[c].bits), strict=True)
    ]
    kind = (
        f"matrix::Product<{m}, {n}, {k}, {in_a}, {in_b}, matrix::{first.cpp}, matrix::{second.cpp}, "
        f"matrix::{SUMS[c].cpp}, matrix::{SUMS[d].cpp}, matrix::{layout}, matrix::{mode}>"
    )
    word = _word(SUMS[d].bits)
    writes = " ".join(step.frame.write(part, word, f"{word.c}(of.d[{i}])") for i, part in enumerate(targets))
    step.frame.features.add("matrix")
    return (
        f"{{ matrix::Operands of = {{{', '.join(values)}, {{}}}}; "
        f"matrix::multiply<{kind}>(of, {step.instruction.place.line}); {writes} }}"
    )


def _in_lane(elements: int, twice: int) -> int:
    return elements * twice // 32


def _registers(elements: int, element: _Element) -> int:
    return max(elements * element.bits // 32, 1) if element.bits < 32 else elements


def _word(bits: int) -> Type:
    return _B64 if bits == 64 else _B32


def _tile(step: Step, *, stores: bool) -> str:
    which = step.choice("a", "b", "c", "d")
    order = step.choice("row", "col")
    name = step.choice(*ELEMENTS, *SUMS)
    shape = next((s for shapes in _WMMA.values() for s in shapes if step.flag(s)), None)
    space = (step.choice("global", "shared", "shared::cta") or "").split("::")[0]
    if which is None or order is None or name is None or shape is None:
        raise step.unknown()
    m, n, k = _sizes(shape)
    is_sum = which in "cd"
    if is_sum != (stores or which == "c") or name not in (SUMS if is_sum else ELEMENTS):
        raise step.unknown()
    element = (SUMS if is_sum else ELEMENTS)[name]
    high, wide = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    elements = _in_lane(high * wide, 2 if not is_sum and name == "f16" else 1)
    step.several(2, 3)
    registers = parts(step, step.operands[1 if stores else 0], _registers(elements, element))
    address = step.frame.address(step.operands[0 if stores else 1], space)
    leading = str(wide if order == "row" else high)
    stride = step.read(2, _S64) if len(step.operands) == 3 else leading
    word = _word(element.bits)
    brought = ", ".join(step.frame.read(part, word) for part in registers) if stores else ""
    kind = (
        f"matrix::TileMoved<{high}, {wide}, {elements}, {element.bits}, {_truth(order == 'col')}, "
        f"'{which}', {_truth(stores)}>"
    )
    code = f"matrix::Tile tile = {{{address}, {stride}, nullptr, {{{brought}}}}}; "
    code += f"matrix::move_tile<{kind}>(tile, {step.instruction.place.line});"
    if not stores:
        for index, part in enumerate(registers):
            code += " " + step.frame.write(part, word, f"{word.c}(tile.registers[{index}])")
    step.frame.features.add("matrix")
    return f"{{ {code} }}"
