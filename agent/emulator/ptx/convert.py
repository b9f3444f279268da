"""Conversions (cvt) between all types: rounding, saturation, and packing of two floats into halves."""

from agent.emulator.ptx.step import ROUNDINGS, Step
from agent.emulator.ptx.types import TYPES, Type

_TO_INTEGRAL = {"rni": "kNearest", "rzi": "kZero", "rmi": "kDown", "rpi": "kUp"}


def cvt(step: Step) -> str:
    if step.flag("tf32"):
        return _to_tf32(step)
    source, result = step.type(), _result_type(step)
    if result.is_pair:
        return _pack(step, source, result)
    step.several(2)
    value = step.read(1, source)
    integral, rounding = step.choice(*_TO_INTEGRAL), step.choice(*ROUNDINGS)
    saturates, flushes, relu = step.flag("sat"), step.flag("ftz"), step.flag("relu")
    if flushes:
        value = _flushed(value, source)
    if source.kind == "f" and result.kind == "f":
        mode = _TO_INTEGRAL.get(integral or "") or ROUNDINGS.get(rounding or "") or "kNearest"
        code = _float_to_float(step, (source, result), value, "rint" if integral else "narrow", mode)
        code = f"saturate({code})" if saturates else f"rectify({code})" if relu else code
        return step.write(result, f"flush({code})" if flushes and result.name == "f32" else code)
    if relu:
        raise step.unknown()
    if source.kind == "f":
        if integral is None:
            raise step.unknown()
        # Out-of-range values are clamped with or without .sat (PTX ISA, cvt).
        wide = "true" if source.bits == 64 or result.bits == 64 else "false"
        return step.write(result, f"to_integer<{result.c}, {wide}>({value}, {_TO_INTEGRAL[integral]})")
    if result.kind == "f":
        code = _integer_to_float(step, source, result, value, ROUNDINGS.get(rounding or ""))
        return step.write(result, f"saturate({code})" if saturates else code)
    code = f"clamp_to<{result.c}>({value})" if saturates else f"{result.c}({value})"
    return step.write(result, code)


def _to_tf32(step: Step) -> str:
    """Translate cvt to tf32, which yields the bits of a float whose low 13 bits are zero."""
    step.several(2)
    mode = step.choice("rna", "rn", "rz")
    source = step.type()
    if mode is None or source.name != "f32":
        raise step.unknown()
    return step.write(TYPES["b32"], f"to_tf32_{mode}({step.read(1, source)})")


def _result_type(step: Step) -> Type:
    if step.flag("tf32"):
        raise step.unknown()
    return step.type()


def _flushed(value: str, type: Type) -> str:
    return f"flush({value})" if type.name == "f32" else value


def _float_to_float(step: Step, types: tuple[Type, Type], value: str, what: str, mode: str) -> str:
    source, result = types
    if what == "rint":
        if source.name != result.name:
            raise step.unknown()
        return f"round_to_integral({value}, {mode})"
    if result.bits >= source.bits and not result.is_half:
        return f"{result.c}({value})"
    if result.name == source.name:
        return value
    if result.is_half:
        if mode == "kNearest":
            return value  # the write to the register rounds
        name = "bf16" if result.name == "bf16" else "f16"
        return f"{name}_value(round_to_{name}({value}, {mode}))"
    return f"float({value})" if mode == "kNearest" else f"round_to_float({value}, {mode})"


def _integer_to_float(step: Step, source: Type, result: Type, value: str, mode: str | None) -> str:
    if mode is None or source.kind == "b":
        raise step.unknown()
    if mode == "kNearest" and not result.is_half:
        return f"{result.c}({value})"
    if result.bits == 64:
        if source.bits == 64:
            return f"integer_to_double({value}, {mode})"
        return f"double({value})"
    odd = f"odd_double({value})"
    if result.is_half:
        name = result.name
        return f"{name}_value(round_to_{name}({odd}, {mode}))"
    return f"round_to_float({odd}, {mode})"


def _pack(step: Step, source: Type, result: Type) -> str:
    """Translate the packing of two floats into a pair of halves; the first source goes to the upper half."""
    step.several(3)
    mode = step.rounding()
    if source.name != "f32" or mode is None:
        raise step.unknown()
    relu, flushes = step.flag("relu"), step.flag("ftz")
    halves = []
    for index in (2, 1):
        value = step.read(index, source)
        value = f"flush({value})" if flushes else value
        value = f"rectify({value})" if relu else value
        halves.append(f"round_to_{result.element.name}({value}, {mode})")
    return step.write(result, f"pair({', '.join(halves)})")
