"""Translation state of one function: its names, and its operands as C++ expressions.

Each register is a C++ variable of its own type. Names of nested scopes are made unique, so that all
variables are declared at the top of the C++ function and jumps cross no declaration.
"""

import re
import struct
from dataclasses import dataclass, field

from agent.emulator.ptx.in_flight import InFlight
from agent.emulator.ptx.syntax import Operand, Place, Untranslated
from agent.emulator.ptx.types import TYPES, Type

_IDENTIFIER = re.compile(r"\W")
_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_FLOAT = {"f": ("<f", 8), "d": ("<d", 16)}

SPECIAL = {
    "WARP_SZ": ("u32", "32u"),
    "%laneid": ("u32", "uint32_t(kw_lane)"),
    "%warpid": ("u32", "(thread_number() / 32)"),
    "%nwarpid": ("u32", "((block_volume() + 31) / 32)"),
    "%lanemask_eq": ("u32", "(1u << kw_lane)"),
    "%lanemask_lt": ("u32", "((1u << kw_lane) - 1)"),
    "%lanemask_le": ("u32", "((2u << kw_lane) - 1)"),
    "%lanemask_gt": ("u32", "~((2u << kw_lane) - 1)"),
    "%lanemask_ge": ("u32", "~((1u << kw_lane) - 1)"),
    "%clock": ("u32", "uint32_t(kw_clock())"),
    "%clock64": ("u64", "uint64_t(kw_clock())"),
    "%globaltimer": ("u64", "uint64_t(kw_clock())"),
    **{
        f"%{name}.{axis}": ("u32", f"uint32_t({variable}.{axis})")
        for name, variable in (
            ("tid", "kw_thread_index"),
            ("ntid", "kw_block_dim"),
            ("ctaid", "kw_block_index"),
            ("nctaid", "kw_grid_dim"),
        )
        for axis in "xyz"
    },
    "%cluster_ctarank": ("u32", "kw_cluster(KW_CLUSTER_RANK)"),
    "%cluster_nctarank": ("u32", "kw_cluster(KW_CLUSTER_SIZE)"),
    **{
        f"%{name}.{axis}": ("u32", f"kw_cluster({what}_{axis.upper()})")
        for name, what in (
            ("cluster_ctaid", "KW_CLUSTER_RANK"),
            ("cluster_nctaid", "KW_CLUSTER_SIZE"),
            ("clusterid", "KW_CLUSTER"),
            ("nclusterid", "KW_CLUSTERS"),
        )
        for axis in "xyz"
    },
}


@dataclass(frozen=True)
class Binding:
    """Meaning of one PTX name in a scope.

    `kind` is register, global, shared, dynamic (shared memory), local, param, function, library, label,
    targets or prototype. `code` is the C++ name.
    """

    kind: str
    code: str
    type: Type | None = None
    labels: tuple[str, ...] = ()


@dataclass
class Frame:
    scopes: list[dict[str, Binding]]
    """Bindings by name, one dict per scope, from the module's scope to the innermost."""
    is_entry: bool
    place: Place = Place()
    declarations: list[str] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    """C++ names of the offsets of shared variables that the function uses, by the variable's C++ name."""
    features: set[str] = field(default_factory=set)
    """Names of optional headers that the function needs, and `carry` if it needs the carry flag."""
    counter: int = 0
    in_flight: InFlight | None = None
    """Tracker of asynchronous matrix products, or None if the function has none."""
    named_once: frozenset[str] = frozenset()
    """Names that exactly one operand of the function uses. A register that is written under such a name is
    never read."""

    def find(self, name: str) -> Binding:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise Untranslated(name, self.place.line)

    def fresh(self, name: str) -> str:
        """Return a unique C++ name for a name of the innermost scope."""
        plain = _IDENTIFIER.sub("_", name.removeprefix("%"))
        if len(self.scopes) == 2 and name.startswith("%"):
            return plain
        self.counter += 1
        return f"{plain}_{self.counter}"

    def register(self, operand: Operand) -> Binding | None:
        """Return the binding of a register, or None if the operand is not a register."""
        if operand.kind != "name" or operand.text in SPECIAL:
            return None
        binding = self.find(operand.text)
        return binding if binding.kind == "register" else None

    def read(self, operand: Operand, type: Type) -> str:
        """Return the operand as an expression of C++ type `type.c`. Raise Untranslated if unsupported."""
        if operand.kind == "not" and type.kind == "p":
            return f"!{self.read(operand.parts[0], type)}"
        if operand.kind == "vector":
            return self._packed(operand, type)
        if operand.kind == "immediate":
            return self._immediate(operand.text, type)
        if operand.kind != "name":
            raise Untranslated(f"operand {operand.kind}", self.place.line)
        if operand.text in SPECIAL:
            source, code = SPECIAL[operand.text]
            return _convert(code, TYPES[source].c, type)
        binding = self.find(operand.text)
        if binding.type is not None and binding.kind == "register":
            return _convert(binding.code, binding.type.stored, type)
        return f"{type.c}({self.symbol(operand)})"

    def write(self, operand: Operand, type: Type, code: str) -> str:
        """Return a statement that assigns `code`, of C++ type `type.c`, to the operand."""
        if operand.kind == "name" and operand.text == "_":
            return f"static_cast<void>({code});"
        if operand.kind == "vector":
            return self._unpacked(operand, type, code)
        binding = self.register(operand)
        if binding is None or binding.type is None:
            raise Untranslated(f"destination {operand.text or operand.kind}", self.place.line)
        stored = binding.type.stored
        if type.is_half:
            code = f"{'bf16' if type.name == 'bf16' else 'f16'}_bits({code})"
        elif type.kind in "usb" and stored in ("float", "double"):
            code = f"as_{stored}({type.unsigned.c}({code}))"
        elif type.kind == "f" and type.c != stored and not type.is_pair:
            code = f"as_bits({code})"
        elif type.kind == "s" or type.c != stored:
            code = f"{type.c}({code})"
        return f"{binding.code} = {code};"

    def symbol(self, operand: Operand) -> str:
        """Return the address of a named variable or function as an integer expression."""
        binding = self.find(operand.text)
        offset = (
            f" + {operand.offset}"
            if operand.offset > 0
            else f" - {-operand.offset}"
            if operand.offset
            else ""
        )
        if binding.kind in ("global", "local", "param"):
            return f"uint64_t({binding.code}){offset}"
        if binding.kind == "function":
            return f"uint64_t(&{binding.code})"
        if binding.kind in ("shared", "dynamic"):
            return f"{self.shared_offset(binding)}{offset}"
        raise Untranslated(f"the address of {operand.text}", self.place.line)

    def shared_offset(self, binding: Binding) -> str:
        if binding.kind == "dynamic":
            return "0u"
        return self.shared.setdefault(binding.code, f"offset_{binding.code}")

    def address(self, operand: Operand, space: str) -> str:
        """Return a `char*` expression for the address operand of a load, store or atomic operation."""
        if operand.kind != "address" or len(operand.parts) != 1:
            raise Untranslated(f"address {operand.kind}", self.place.line)
        [base] = operand.parts
        binding = self.register(base)
        if binding is None and base.kind == "name":
            target = self.find(base.text)
            if target.kind in ("global", "local", "param"):
                return f"({target.code} + {operand.offset})"
        value = self.read(base, TYPES["u64"]) if binding is None or _is_wide(binding) else binding.code
        offset = f" + {operand.offset}" if operand.offset >= 0 else f" - {-operand.offset}"
        if space == "shared":
            return f"(shared + uint32_t({value}{offset}))"
        if space == "shared::cluster":
            return f"cluster_shared(shared, uint32_t({value}{offset}))"
        return f"reinterpret_cast<char*>({value}{offset})"

    def _immediate(self, text: str, type: Type) -> str:
        marker = text[1:2].lower()
        if text[0] == "0" and marker in _FLOAT and len(text) == 2 + _FLOAT[marker][1]:
            return self._float(text, type)
        match = _INTEGER.fullmatch(text)
        if match is None:
            if type.kind == "f" and type.bits >= 32 and re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
                return f"{type.c}({text})"
            raise Untranslated(f"number {text}", self.place.line)
        digits = match[2]
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        value = int(digits, 8) if octal else int(digits, 0)
        value = -value if match[1] else value
        return _constant(value, type, self.place.line)

    def _float(self, text: str, type: Type) -> str:
        form, _ = _FLOAT[text[1].lower()]
        word = int(text[2:], 16)
        bits = 32 if form == "<f" else 64
        if type.kind == "b" and type.bits == bits:
            return _constant(word, type, self.place.line)
        if type.kind != "f" or type.bits != bits or type.is_pair:
            raise Untranslated(f"number {text} as {type.name}", self.place.line)
        [value] = struct.unpack(form, word.to_bytes(bits // 8, "little"))
        if value != value or value in (float("inf"), float("-inf")):
            return f"as_{type.c}({hex(word)}{'u' if bits == 32 else 'ul'})"
        literal = f"{float(value).hex()}{'f' if bits == 32 else ''}"
        return f"({literal})" if literal[0] == "-" else literal

    def _packed(self, operand: Operand, type: Type) -> str:
        """Return the vector operand `{a, b}` as one value, with the first element in the low bits."""
        count = len(operand.parts)
        if type.kind == "p" or count == 0 or type.bits % count:
            raise Untranslated("operand {...}", self.place.line)
        each = type.bits // count
        part, whole = TYPES.get(f"b{each}"), TYPES[f"b{type.bits}"]
        if part is None:
            raise Untranslated("operand {...}", self.place.line)
        pieces = [
            f"{whole.c}({self.read(element, part)})" + (f" << {index * each}" if index else "")
            for index, element in enumerate(operand.parts)
        ]
        return _convert(f"{whole.c}(" + " | ".join(f"({piece})" for piece in pieces) + ")", whole.c, type)

    def _unpacked(self, operand: Operand, type: Type, code: str) -> str:
        each = type.bits // max(len(operand.parts), 1)
        part = TYPES.get(f"b{each}")
        if part is None or type.kind == "p":
            raise Untranslated("destination {...}", self.place.line)
        word = f"as_bits({code})" if type.kind == "f" and not type.is_pair else f"{type.unsigned.c}({code})"
        writes = [
            self.write(element, part, f"{part.c}(whole >> {index * each})")
            for index, element in enumerate(operand.parts)
            if element.text != "_"
        ]
        return f"{{ const {type.unsigned.c} whole = {word}; {' '.join(writes)} }}"


def _is_wide(binding: Binding) -> bool:
    return binding.type is not None and binding.type.bits == 64


def _convert(code: str, stored: str, type: Type) -> str:
    """Convert `code`, of C++ type `stored`, to a value of `type`."""
    if type.is_half:
        bits = code if stored == "uint16_t" else f"uint16_t({code})"
        return f"{'bf16' if type.name == 'bf16' else 'f16'}_value({bits})"
    if type.kind == "f" and not type.is_pair:
        if stored == type.c:
            return code
        return f"as_{type.c}({type.unsigned.c}({code}))"
    if stored in ("float", "double"):
        code, stored = f"as_bits({code})", "uint32_t" if stored == "float" else "uint64_t"
    return code if stored == type.c else f"{type.c}({code})"


def _constant(value: int, type: Type, line: int) -> str:
    if type.kind == "p":
        return "true" if value else "false"
    if type.is_half:
        return f"{'bf16' if type.name == 'bf16' else 'f16'}_value({value & 0xFFFF})"
    if type.kind == "f" and not type.is_pair:
        raise Untranslated(f"number {value} as {type.name}", line)
    word = value % (1 << type.bits)
    if type.kind == "s":
        signed = word - (1 << type.bits) if word >> (type.bits - 1) else word
        smallest = signed == -(1 << (type.bits - 1))
        suffix = "l" if type.bits == 64 else ""
        return (
            f"({signed + 1}{suffix} - 1)"
            if smallest
            else f"({signed}{suffix})"
            if signed < 0
            else f"{signed}{suffix}"
        )
    return f"{word}{'ul' if type.bits == 64 else 'u'}"
