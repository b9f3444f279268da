"""Floating-point arithmetic: f32, f64, f16, bf16 and pairs of halves.

Sums and products of halves are computed in float and then rounded again. The bits are the same as with one
rounding (Figueroa 1995: 24 >= 2 * 11 + 2). `fma` of halves goes through a double rounded to odd.
"""

from collections.abc import Callable

from agent.emulator.ptx.step import Step
from agent.emulator.ptx.types import Type

_INFIX = {"add": "+", "sub": "-", "mul": "*"}
_APPROXIMATE = ("rcp", "rsqrt", "sqrt", "sin", "cos", "lg2", "ex2", "tanh")
_TRUTHS = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def lanes(step: Step, type: Type, operate: Callable[[list[str]], str], first: int = 1) -> str:
    """Apply `operate` to the source operands, once for each half of a pair, and write the result."""
    sources = range(first, len(step.operands))
    if not type.is_pair:
        return step.write(type, operate([step.read(index, type) for index in sources]))
    element = type.element.name
    halves = []
    for half in ("low", "high"):
        arguments = [f"{element}_value({half}({step.read(index, type)}))" for index in sources]
        halves.append(f"{element}_bits({operate(arguments)})")
    return step.write(type, f"pair({', '.join(halves)})")


def _flusher(step: Step, type: Type) -> Callable[[str], str]:
    """Return a function that flushes subnormal operands and results to zero if `.ftz` is given.

    f16 is computed in float, whose exponent range is wider, so `flush_half` tests for f16's subnormal range.
    """
    if not step.flag("ftz"):
        return str
    if type.element.is_half and type.element.name == "f16":
        return lambda code: f"flush_half({code})"
    if type.bits == 64:
        return str  # only f64 approximations carry .ftz, and their operands are not subnormal in practice
    return lambda code: f"flush({code})"


def _clamped(step: Step) -> Callable[[str], str]:
    if step.flag("sat"):
        return lambda code: f"saturate({code})"
    if step.flag("relu"):
        return lambda code: f"rectify({code})"
    return str


def sum_or_product(step: Step, type: Type) -> str:
    """Translate add, sub and mul."""
    step.several(3)
    opcode = step.instruction.opcode
    rounding = step.rounding() or "kNearest"
    flush, clamp = _flusher(step, type), _clamped(step)
    if rounding != "kNearest" and type.element.is_half:
        raise step.unknown()

    def operate(arguments: list[str]) -> str:
        a, b = (flush(argument) for argument in arguments)
        if rounding == "kNearest":
            return clamp(flush(f"({a} {_INFIX[opcode]} {b})"))
        return clamp(flush(f"{opcode}_rounded({a}, {b}, {rounding})"))

    return lanes(step, type, operate)


def fma(step: Step, type: Type) -> str:
    """Translate fma and floating-point mad, which also rounds once (PTX ISA, mad for sm_20 and later)."""
    step.several(4)
    rounding = step.rounding()
    flush, clamp = _flusher(step, type), _clamped(step)
    if rounding is None or (rounding != "kNearest" and type.element.is_half):
        raise step.unknown()
    name = f"fma_{type.element.name}" if type.element.is_half else "fma"

    def operate(arguments: list[str]) -> str:
        a, b, c = (flush(argument) for argument in arguments)
        if rounding == "kNearest":
            return clamp(flush(f"{name}({a}, {b}, {c})"))
        return clamp(flush(f"fma_rounded({a}, {b}, {c}, {rounding})"))

    return lanes(step, type, operate)


def divide(step: Step, type: Type) -> str:
    step.several(3)
    flush = _flusher(step, type)
    if step.flag("approx"):
        return lanes(step, type, lambda a: flush(f"divide_approximately({flush(a[0])}, {flush(a[1])})"))
    rounding = step.rounding() or ("kNearest" if step.flag("full") else None)
    if rounding is None:
        raise step.unknown()
    if rounding == "kNearest":
        return lanes(step, type, lambda a: flush(f"({flush(a[0])} / {flush(a[1])})"))
    return lanes(step, type, lambda a: flush(f"div_rounded({flush(a[0])}, {flush(a[1])}, {rounding})"))


def unary(step: Step, type: Type) -> str:
    """Translate abs, neg and the functions of one argument.

    Approximate functions have the documented error (kw/approximate.h).
    """
    step.several(2)
    opcode = step.instruction.opcode
    flush = _flusher(step, type)
    if opcode in ("abs", "neg"):
        return lanes(step, type, lambda a: f"{opcode}_of({flush(a[0])})")
    if opcode not in _APPROXIMATE:
        raise step.unknown()
    rounding = None if step.flag("approx") else step.rounding()
    if rounding in (None, "kNearest"):
        return lanes(step, type, lambda a: flush(f"{opcode}_of({flush(a[0])})"))
    if opcode not in ("rcp", "sqrt"):
        raise step.unknown()
    return lanes(step, type, lambda a: flush(f"{opcode}_rounded({flush(a[0])}, {rounding})"))


def extreme(step: Step, type: Type) -> str:
    """Translate min and max, which prefer a number over NaN unless `.NaN` is given."""
    step.several(3)
    flush = _flusher(step, type)
    suffix = "_nan" if step.flag("NaN") else ""
    name = f"{step.instruction.opcode}imum{suffix}"
    return lanes(step, type, lambda a: f"{name}({flush(a[0])}, {flush(a[1])})")


def copysign(step: Step) -> str:
    """Translate copysign, which gives the second source the sign of the first."""
    step.several(3)
    return lanes(step, step.type(), lambda a: f"copysign_of({a[1]}, {a[0]})")


def testp(step: Step) -> str:
    step.several(2)
    type, question = step.type(), step.choice(*_TRUTHS)
    if question is None or type.element.is_half:
        raise step.unknown()
    binding = step.frame.register(step.operands[0])
    if binding is None or binding.type is None:
        raise step.unknown()
    return f"{binding.code} = is_{question}({step.read(1, type)});"
