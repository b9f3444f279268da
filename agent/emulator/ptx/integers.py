"""Integer arithmetic and bit manipulation. Sums and products wrap, so the C++ computes them unsigned."""

from agent.emulator.ptx import floats
from agent.emulator.ptx.frame import Frame
from agent.emulator.ptx.step import Step
from agent.emulator.ptx.types import TYPES, Type

_U32 = TYPES["u32"]
_INFIX = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_PERMUTATIONS = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def sum_or_difference(step: Step) -> str:
    type = step.type()
    if type.kind == "f":
        return floats.sum_or_product(step, type)
    step.several(3)
    opcode = step.instruction.opcode
    if step.flag("sat"):
        if type.name != "s32":
            raise step.unknown()
        return step.write(type, f"{opcode}_saturated({step.read(1, type)}, {step.read(2, type)})")
    a, b = _wrapping(step, 1, type), _wrapping(step, 2, type)
    if step.flag("cc"):
        return _with_carry(step, type, f"{opcode}_carry_out({a}, {b}, carry)")
    return step.write(type, f"{a} {_INFIX[opcode]} {b}")


def carried(step: Step) -> str:
    """Translate addc and subc."""
    step.several(3)
    type = step.type()
    name = step.instruction.opcode.removesuffix("c")
    through = "through" if step.flag("cc") else "in"
    a, b = _wrapping(step, 1, type), _wrapping(step, 2, type)
    return _with_carry(step, type, f"{name}_carry_{through}({a}, {b}, carry)")


def _with_carry(step: Step, type: Type, code: str) -> str:
    if type.bits < 32:
        raise step.unknown()
    step.frame.features.add("carry")
    return step.write(type, code)


def product(step: Step) -> str:
    type = step.type()
    if type.kind == "f":
        return floats.sum_or_product(step, type)
    step.several(3)
    part = step.choice("lo", "hi", "wide")
    return step.write(*_product(step, type, part))


def _product(step: Step, type: Type, part: str | None) -> tuple[Type, str]:
    if part == "lo":
        return type, f"{_wrapping(step, 1, type)} * {_wrapping(step, 2, type)}"
    a, b = step.read(1, type), step.read(2, type)
    if part == "wide" and type.bits < 64:
        wide = type.double_width
        return wide, f"{wide.c}({a}) * {wide.c}({b})"
    if part == "hi":
        return type, f"product_high({a}, {b})"
    raise step.unknown()


def multiply_add(step: Step) -> str:
    type = step.type()
    if type.kind == "f":
        return floats.fma(step, type)
    step.several(4)
    part = step.choice("lo", "hi", "wide")
    if step.flag("sat"):
        if type.name != "s32" or part != "hi":
            raise step.unknown()
        a, b, c = (step.read(index, type) for index in (1, 2, 3))
        return step.write(type, f"add_saturated(product_high({a}, {b}), {c})")
    result, code = _product(step, type, part)
    unsigned = result.unsigned
    c = _wrapping(step, 3, result)
    code = code if part == "lo" else f"{unsigned.c}({code})"
    if step.flag("cc"):
        return _with_carry(step, result, f"add_carry_out({unsigned.c}({code}), {c}, carry)")
    return step.write(result, f"{code} + {c}")


def multiply_add_carried(step: Step) -> str:
    """Translate madc."""
    step.several(4)
    type, part = step.type(), step.choice("lo", "hi")
    result, code = _product(step, type, part)
    through = "through" if step.flag("cc") else "in"
    c = _wrapping(step, 3, result)
    return _with_carry(step, result, f"add_carry_{through}({result.unsigned.c}({code}), {c}, carry)")


def product24(step: Step) -> str:
    """Translate mul24.lo and mad24.lo, which multiply the low 24 bits of both factors."""
    type = step.type()
    if not step.flag("lo") or type.bits != 32:
        raise step.unknown()
    code = f"low24({step.read(1, type)}) * low24({step.read(2, type)})"
    if step.instruction.opcode == "mad24":
        step.several(4)
        code = f"({code}) + {_wrapping(step, 3, type)}"
    else:
        step.several(3)
    return step.write(type, code)


def quotient(step: Step) -> str:
    """Translate div and rem."""
    type = step.type()
    if type.kind == "f":
        if step.instruction.opcode == "rem":
            raise step.unknown()
        return floats.divide(step, type)
    step.several(3)
    name = "quotient" if step.instruction.opcode == "div" else "remainder"
    return step.write(type, f"{name}({step.read(1, type)}, {step.read(2, type)})")


def extreme(step: Step) -> str:
    """Translate min and max."""
    type = step.type()
    if type.kind == "f":
        return floats.extreme(step, type)
    step.several(3)
    relu = step.flag("relu")
    if type.kind == "b" or (relu and type.kind != "s"):
        raise step.unknown()
    sign = "<" if step.instruction.opcode == "min" else ">"
    a, b = step.read(1, type), step.read(2, type)
    code = f"({a} {sign} {b} ? {a} : {b})"
    return step.write(type, f"({code} < 0 ? 0 : {code})" if relu else code)


def sign(step: Step) -> str:
    """Translate abs and neg."""
    type = step.type()
    if type.kind == "f":
        return floats.unary(step, type)
    step.several(2)
    if type.kind != "s":
        raise step.unknown()
    negative = f"0u - {_wrapping(step, 1, type)}"
    if step.instruction.opcode == "neg":
        return step.write(type, negative)
    return step.write(type, f"({step.read(1, type)} < 0 ? {negative} : {_wrapping(step, 1, type)})")


def logic(step: Step) -> str:
    """Translate and, or, xor, not and cnot of bits and predicates."""
    type, opcode = step.type(), step.instruction.opcode
    if type.kind not in "bp":
        raise step.unknown()
    a = step.read(1, type)
    if opcode in ("not", "cnot"):
        step.several(2)
        inverted = type.kind == "p" or opcode == "cnot"
        return step.write(type, f"!{a}" if inverted else f"~{a}")
    step.several(3)
    return step.write(type, f"{a} {_INFIX[opcode]} {step.read(2, type)}")


def shift(step: Step) -> str:
    """Translate shl and shr. Shift amounts are clamped to the operand's width."""
    step.several(3)
    type, opcode = step.type(), step.instruction.opcode
    if type.kind not in "bus":
        raise step.unknown()
    amount = step.operands[2]
    known = int(amount.text.rstrip("U"), 0) if amount.kind == "immediate" else None
    if known is not None and 0 <= known < min(type.bits, 32):
        value = _wrapping(step, 1, type) if opcode == "shl" else step.read(1, type)
        return step.write(type, f"{value} {'<<' if opcode == 'shl' else '>>'} {known}")
    return step.write(
        type, f"shift_{'left' if opcode == 'shl' else 'right'}({step.read(1, type)}, {step.read(2, _U32)})"
    )


def funnel_shift(step: Step) -> str:
    step.several(4)
    side, mode, type = step.choice("l", "r"), step.choice("wrap", "clamp"), step.type()
    if side is None or mode is None or type.bits != 32:
        raise step.unknown()
    low, high, amount = (step.read(index, _U32) for index in (1, 2, 3))
    limited = f"({amount} & 31)" if mode == "wrap" else f"minimum_of({amount}, 32u)"
    return step.write(type, f"funnel_{'left' if side == 'l' else 'right'}({low}, {high}, {limited})")


def count(step: Step) -> str:
    """Translate popc, clz, brev and bfind."""
    step.several(2)
    type, opcode = step.type(), step.instruction.opcode
    if opcode == "bfind":
        shift_amount = "true" if step.flag("shiftamt") else "false"
        return step.write(_U32, f"find_bit({step.read(1, type)}, {shift_amount})")
    if type.kind != "b" or type.bits < 32:
        raise step.unknown()
    name = {"popc": "count_bits", "clz": "leading_zeros", "brev": "reverse_bits"}[opcode]
    return step.write(type if opcode == "brev" else _U32, f"{name}({step.read(1, type)})")


def field(step: Step) -> str:
    """Translate bfe and bfi."""
    type = step.type()
    if type.bits < 32:
        raise step.unknown()
    if step.instruction.opcode == "bfe":
        step.several(4)
        return step.write(type, f"extract({step.read(1, type)}, {step.read(2, _U32)}, {step.read(3, _U32)})")
    step.several(5)
    a, b = step.read(1, type), step.read(2, type)
    return step.write(type, f"insert({a}, {b}, {step.read(3, _U32)}, {step.read(4, _U32)})")


def permute(step: Step) -> str:
    step.several(4)
    type, mode = step.type(), step.choice(*_PERMUTATIONS)
    a, b, selector = (step.read(index, _U32) for index in (1, 2, 3))
    return step.write(type, f"permute{'_' + mode if mode else ''}({a}, {b}, {selector})")


def table(step: Step) -> str:
    """Translate lop3, an arbitrary function of three bits."""
    step.several(5)
    type, chosen = step.type(), step.operands[4]
    if type.bits != 32 or chosen.kind != "immediate":
        raise step.unknown()
    a, b, c = (step.read(index, type) for index in (1, 2, 3))
    return step.write(type, f"table_of_bits<{int(chosen.text, 0)}>({a}, {b}, {c})")


def absolute_difference(step: Step) -> str:
    """Translate sad, which adds the absolute difference of two numbers to a third."""
    step.several(4)
    type = step.type()
    a, b = step.read(1, type), step.read(2, type)
    u, v = _wrapping(step, 1, type), _wrapping(step, 2, type)
    return step.write(type, f"({a} < {b} ? {v} - {u} : {u} - {v}) + {_wrapping(step, 3, type)}")


def dot(step: Step) -> str:
    """Translate dp4a, which adds four products of bytes to a third operand."""
    step.several(4)
    kinds = [name for name in step.instruction.modifiers if name in ("u32", "s32")]
    step.type(), step.type()
    if len(kinds) != 2:
        raise step.unknown()
    signs = ", ".join("int8_t" if kind == "s32" else "uint8_t" for kind in kinds)
    a, b, c = (step.read(index, _U32) for index in (1, 2, 3))
    return step.write(_U32, f"dot_bytes<{signs}>({a}, {b}, {c})")


def _wrapping(step: Step, index: int, type: Type) -> str:
    """Return an operand for wrapping arithmetic, as an unsigned expression at least as wide as int."""
    frame: Frame = step.frame
    code = frame.read(step.operands[index], type.unsigned)
    return code if type.bits >= 32 else f"uint32_t({code})"
