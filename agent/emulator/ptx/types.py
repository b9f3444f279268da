"""PTX types and their C++ representation.

f16 and bf16 values are stored as their 16 bits and computed as C++ floats. Pairs of them (`f16x2`,
`bf16x2`) are stored as 32 bits.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    name: str
    kind: str
    """Kind: u for unsigned and s for signed integers, b for bits, f for floating point, p for predicates."""
    bits: int
    c: str
    """C++ type of a value in an expression."""

    @property
    def is_half(self) -> bool:
        return self.name in ("f16", "bf16")

    @property
    def is_pair(self) -> bool:
        return self.name in ("f16x2", "bf16x2")

    @property
    def element(self) -> "Type":
        """Return the element type of a pair, or else the type itself."""
        return TYPES[self.name[:-2]] if self.is_pair else self

    @property
    def unsigned(self) -> "Type":
        return TYPES[f"u{self.bits}"]

    @property
    def double_width(self) -> "Type":
        return TYPES[f"{self.kind}{self.bits * 2}"]

    @property
    def stored(self) -> str:
        """Return the C++ type of a register declared with this type."""
        if self.kind == "p" or (self.kind == "f" and self.bits >= 32 and not self.is_pair):
            return self.c
        return f"uint{self.bits}_t"


def _integers() -> dict[str, Type]:
    found = {}
    for bits in (8, 16, 32, 64):
        for kind in "usb":
            sign = "" if kind == "s" else "u"
            found[f"{kind}{bits}"] = Type(f"{kind}{bits}", kind, bits, f"{sign}int{bits}_t")
    return found


TYPES: dict[str, Type] = {
    **_integers(),
    "f32": Type("f32", "f", 32, "float"),
    "f64": Type("f64", "f", 64, "double"),
    "f16": Type("f16", "f", 16, "float"),
    "bf16": Type("bf16", "f", 16, "float"),
    "f16x2": Type("f16x2", "f", 32, "uint32_t"),
    "bf16x2": Type("bf16x2", "f", 32, "uint32_t"),
    "pred": Type("pred", "p", 1, "bool"),
}
