"""Comparison and selection: setp, set, selp and slct."""

from agent.emulator.ptx.step import Step
from agent.emulator.ptx.types import TYPES, Type

_PRED = TYPES["pred"]
_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
# Unordered comparisons hold if an operand is NaN. C++ tests that the opposite ordered comparison is false.
_UNORDERED = {"equ": "!=", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
_COMPARISONS = (*_ORDERED, *_UNSIGNED, *_UNORDERED, "neu", "num", "nan")
_COMBINE = {"and": "&", "or": "|", "xor": "^"}


def setp(step: Step) -> str:
    """Translate setp with destinations `p|q`.

    p is the comparison, optionally combined with a third operand; q is the negated comparison, combined
    likewise.
    """
    type, comparison, combine = _modifiers(step)
    step.several(4 if combine else 3)
    target, other = step.target_pair()
    if type.is_pair:
        if other is None or combine:
            raise step.unknown()
        low, high = _by_halves(step, type, comparison)
        return step.frame.write(target, _PRED, low) + " " + step.frame.write(other, _PRED, high)
    code = _comparison(type, comparison, *_sources(step, type))
    if other is None:
        return step.frame.write(target, _PRED, _combined(step, combine, code))
    positive, negative = _combined(step, combine, "outcome"), _combined(step, combine, "!outcome")
    writes = f"{step.frame.write(target, _PRED, 'first')} {step.frame.write(other, _PRED, 'second')}"
    return f"{{ const bool outcome = {code}, first = {positive}, second = {negative}; {writes} }}"


def set_value(step: Step) -> str:
    """Translate set, whose result is all ones (or 1.0) if the comparison holds, and 0 otherwise."""
    type, comparison, combine = _modifiers(step)
    result = step.type()
    step.several(4 if combine else 3)
    if type.is_pair:
        low, high = _by_halves(step, type, comparison)
        if combine or result.bits != 32:
            raise step.unknown()
        if result.is_pair:
            one = "0x3f80" if result.name == "bf16x2" else "0x3c00"
            return step.write(result, f"pair({low} ? {one} : 0, {high} ? {one} : 0)")
        if result.kind != "u":
            raise step.unknown()
        return step.write(result, f"pair({low} ? 0xffff : 0, {high} ? 0xffff : 0)")
    code = _combined(step, combine, _comparison(type, comparison, *_sources(step, type)))
    return step.write(
        result,
        f"({code} ? {'1.0f' if result.kind == 'f' else '~0u'} : {'0.0f' if result.kind == 'f' else '0u'})",
    )


def selp(step: Step) -> str:
    step.several(4)
    type = step.type()
    return step.write(type, f"({step.read(3, _PRED)} ? {step.read(1, type)} : {step.read(2, type)})")


def slct(step: Step) -> str:
    step.several(4)
    control, type = step.type(), step.type()
    value = step.read(3, control)
    value = f"flush({value})" if step.flag("ftz") else value
    if control.name not in ("s32", "f32"):
        raise step.unknown()
    return step.write(type, f"({value} >= 0 ? {step.read(1, type)} : {step.read(2, type)})")


def _modifiers(step: Step) -> tuple[Type, str, str | None]:
    type = step.type()
    comparison, combine = step.choice(*_COMPARISONS), step.choice(*_COMBINE)
    if comparison is None:
        raise step.unknown()
    if type.kind != "f" and (comparison in _UNORDERED or comparison in ("neu", "num", "nan")):
        raise step.unknown()
    if type.kind != "u" and comparison in _UNSIGNED:
        raise step.unknown()
    return type, comparison, combine


def _sources(step: Step, type: Type) -> tuple[str, str]:
    a, b = step.read(1, type), step.read(2, type)
    if not step.flag("ftz"):
        return a, b
    flush = "flush_half" if type.name == "f16" else "flush"
    return f"{flush}({a})", f"{flush}({b})"


def _comparison(type: Type, name: str, a: str, b: str) -> str:
    if name == "num":
        return f"!(is_nan({a}) || is_nan({b}))"
    if name == "nan":
        return f"(is_nan({a}) || is_nan({b}))"
    if name == "neu":
        return f"!({a} == {b})"
    if name == "ne" and type.kind == "f":
        return f"differ({a}, {b})"
    if name == "equ":
        return f"!differ({a}, {b})"
    if name in _UNORDERED:
        return f"!({a} {_UNORDERED[name]} {b})"
    return f"({a} {_ORDERED.get(name) or _UNSIGNED[name]} {b})"


def _by_halves(step: Step, type: Type, comparison: str) -> tuple[str, str]:
    element = type.element
    step.flag("ftz")  # consume the modifier; only f16 halves are flushed
    flush = "flush_half" if "ftz" in step.instruction.modifiers and element.name == "f16" else ""
    found = []
    for half in ("low", "high"):
        a, b = (f"{flush}({element.name}_value({half}({step.read(index, type)})))" for index in (1, 2))
        found.append(_comparison(element, comparison, a, b))
    return found[0], found[1]


def _combined(step: Step, combine: str | None, code: str) -> str:
    if combine is None:
        return code
    return f"(({code}) {_COMBINE[combine]} ({step.read(3, _PRED)}))"
