"""Warpgroup matrix products (wgmma), with operands in shared memory (by descriptor) or registers."""

from agent.emulator.ptx import matrix
from agent.emulator.ptx.step import Step
from agent.emulator.ptx.syntax import Operand
from agent.emulator.ptx.types import TYPES

_B32, _B64, _PRED = (TYPES[name] for name in ("b32", "b64", "pred"))
_DEPTH_BITS = 256
"""Number of bits in one row of the matrix A of a product, for every element type."""
_SUMS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "fp8": ("f16", "f32"), "8": ("s32",),
    "b1": ("s32",),
}  # fmt: skip
_CALLS = {"fence": "kw_products_fence();", "commit_group": "kw_products_commit();"}


def wgmma(step: Step) -> str:
    kind = step.choice("mma_async", "fence", "commit_group", "wait_group")
    if kind is None or not (step.flag("sync") and step.flag("aligned")):
        raise step.unknown()
    if kind == "mma_async":
        return _product(step)
    if kind == "wait_group":
        step.several(1)
        return f"kw_products_wait({step.read(0, TYPES['u32'])});"
    step.several(0)
    return _CALLS[kind]


def adds(step: Step) -> str:
    """Return the C++ condition under which a product reads its accumulators; "" for other instructions."""
    is_product = step.instruction.opcode == "wgmma" and len(step.operands) > 3
    return step.read(3, _PRED) if is_product else ""


def _product(step: Step) -> str:
    kinds = [name for name in step.instruction.modifiers if name in matrix.ELEMENTS or name in matrix.SUMS]
    if len(kinds) != 3 or kinds[0] not in matrix.SUMS:
        raise step.unknown()
    for name in kinds:
        step.flag(name)
    d, a, b = kinds
    family = matrix.FAMILIES.get(a, a)
    if family != matrix.FAMILIES.get(b, b) or d not in _SUMS.get(family, ()):
        raise step.unknown()
    columns, depth = _shape(step, matrix.ELEMENTS[a].bits, integer=d == "s32")
    mode = "kMultiply"
    if family == "b1":
        if not (step.flag("and") and step.flag("popc")):
            raise step.unknown()
        mode = "kAnd"
    elif d == "s32" and step.flag("satfinite"):
        mode = "kMultiplySaturating"
    how = _how(step, transposable=family in ("f16", "bf16"), scaled=d != "s32")
    count = columns // 2 * matrix.SUMS[d].bits // 32
    sums = matrix.parts(step, step.operands[0], count)
    in_registers = step.operands[1].kind == "vector"
    left = matrix.parts(step, step.operands[1], 4) if in_registers else ()
    brought = ", ".join(step.frame.read(part, _B32) for part in left)
    a_at = "0" if in_registers else step.read(1, _B64)
    step.frame.features |= {"matrix", "warpgroup"}
    product = (
        f"matrix::GroupProduct<{columns}, {depth}, matrix::{matrix.ELEMENTS[a].cpp}, "
        f"matrix::{matrix.ELEMENTS[b].cpp}, matrix::{matrix.SUMS[d].cpp}, {how}, matrix::{mode}>"
    )
    line = step.instruction.place.line
    return (
        f"{{ uint32_t d[] = {{{', '.join(step.frame.read(part, _B32) for part in sums)}}}; "
        f"matrix::GroupOperands of = {{d, {{{brought}}}, {a_at}, {step.read(2, _B64)}, shared, nullptr, "
        f"{step.read(3, _PRED)}}}; matrix::multiply_group<{product}>(of, {line}); "
        + " ".join(step.frame.write(part, _B32, f"d[{i}]") for i, part in enumerate(sums))
        + " }"
    )


def _shape(step: Step, bits: int, *, integer: bool) -> tuple[int, int]:
    depth = _DEPTH_BITS // bits
    # Integer products take multiples of 8 columns up to 32, then multiples of 16.
    widths = [n for n in range(8, 257, 8) if not integer or n <= 32 or n % 16 == 0]
    found = step.choice(*(f"m64n{n}k{depth}" for n in widths))
    if found is None:
        raise step.unknown()
    return int(found[4:].split("k")[0]), depth


def _how(step: Step, *, transposable: bool, scaled: bool) -> str:
    """Return the C++ flags of a product: negated and transposed factors, and A in shared memory.

    Signs and transpositions are the immediate operands after `scale-d`.
    """
    in_registers = step.operands[1].kind == "vector"
    flips = ([] if in_registers else ["matrix::kFlipA"]) + ["matrix::kFlipB"]
    signs = ["matrix::kNegateA", "matrix::kNegateB"] if scaled else []
    more = (*signs, *(flips if transposable else ()))
    step.several(4 + len(more))
    chosen = [] if in_registers else ["matrix::kSharedA"]
    for name, operand in zip(more, step.operands[4:], strict=True):
        if _immediate(step, operand) == (-1 if name in signs else 1):
            chosen.append(name)
    return "(" + " | ".join(["0", *chosen]) + ")"


def _immediate(step: Step, operand: Operand) -> int:
    if operand.kind != "immediate" or operand.text not in ("-1", "0", "1"):
        raise step.unknown()
    return int(operand.text)
