"""Integer instructions of PTX against Python's unbounded integers."""
# ruff: noqa: E501 - tables, with one case to a row

from collections.abc import Callable

import numpy as np
import pytest
from device_library import Array
from ptx_cases import Case, case, check, module
from ptx_library import PtxDevice

EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536]


def numbers(kind: str, seed: int, count: int = 96) -> Array:
    """Edge cases in every order of size, and random ones."""
    dtype = np.dtype(kind)
    generator = np.random.default_rng(seed)
    wide = generator.integers(0, 2**63, count, dtype=np.uint64) >> generator.integers(
        0, 63, count, dtype=np.uint64
    )
    some = [*EDGES, *(2**bits - 1 for bits in (31, 32, 63, 64)), *(2**bits for bits in (31, 63))]
    values = [*(-v for v in some), *some, *(int(v) for v in wide)]
    chosen = generator.permutation(len(values))[:count]
    return np.array([wrap(values[i], dtype) for i in chosen], dtype)


def wrap(value: int, dtype: np.dtype[np.generic] | str) -> int:
    kind = np.dtype(dtype)
    bits = kind.itemsize * 8
    value %= 1 << bits
    return value - (1 << bits) if kind.kind == "i" and value >> (bits - 1) else value


def of(body: str, kinds: str, result: str, function: Callable[..., int], name: str = "") -> Case:
    """A case whose operands have the numpy types `kinds`, separated by spaces."""
    inputs = [numbers(kind, seed) for seed, kind in enumerate(kinds.split(), len(body))]
    if "div" in body or "rem" in body:
        inputs[1][inputs[1] == 0] = 7
    rows = zip(*(array.tolist() for array in inputs), strict=True)
    expected = np.array([wrap(int(function(*row)), result) for row in rows], result)
    return case(body, expected, *inputs, name=name)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamped(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def reversed_bits(value: int, bits: int) -> int:
    return int(format(value, f"0{bits}b")[::-1], 2)


def find_bit(value: int, bits: int) -> int:
    differing = ~value if value < 0 else value
    return differing.bit_length() - 1 if differing else 2**32 - 1


def low24(value: int) -> int:
    value %= 1 << 24
    return value - (1 << 24) if value >> 23 else value


def signed_extracted(value: int, b: int, c: int, bits: int) -> int:
    """bfe of a signed number, bit by bit as the PTX ISA has it."""
    position, length = b & 255, c & 255
    word = value % (1 << bits)
    fill = word >> min(position + length - 1, bits - 1) & 1 if length else 0
    result = 0
    for i in range(bits):
        result |= (word >> (position + i) & 1 if i < length and position + i < bits else fill) << i
    return result


def unsigned_extracted(value: int, b: int, c: int) -> int:
    return (value >> (b & 255)) & ((1 << (c & 255)) - 1)


def permuted(a: int, b: int, selectors: list[int]) -> int:
    data = (a | b << 32).to_bytes(8, "little")
    picked = [(255 if data[s & 7] & 128 else 0) if s & 8 else data[s & 7] for s in selectors]
    return int.from_bytes(bytes(picked), "little")


def table(lut: int) -> Callable[[int, int, int], int]:
    def look_up(a: int, b: int, c: int) -> int:
        return sum(
            (lut >> (((a >> i & 1) << 2) | ((b >> i & 1) << 1) | (c >> i & 1)) & 1) << i for i in range(32)
        )

    return look_up


def signed_bytes(value: int) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in value.to_bytes(4, "little")]


CASES = [
    of("add.s32 %d, %a, %b;", "int32 int32", "int32", lambda a, b: a + b),
    of("add.u16 %d, %a, %b;", "uint16 uint16", "uint16", lambda a, b: a + b),
    of("add.sat.s32 %d, %a, %b;", "int32 int32", "int32", lambda a, b: clamped(a + b, 32)),
    of("sub.sat.s32 %d, %a, %b;", "int32 int32", "int32", lambda a, b: clamped(a - b, 32)),
    of("sub.u64 %d, %a, %b;", "uint64 uint64", "uint64", lambda a, b: a - b),
    of("mul.lo.u16 %d, %a, %b;", "uint16 uint16", "uint16", lambda a, b: a * b),
    of("mul.lo.s32 %d, %a, %b;", "int32 int32", "int32", lambda a, b: a * b),
    of("mul.lo.s64 %d, %a, %b;", "int64 int64", "int64", lambda a, b: a * b),
    *[
        of(f"mul.hi.{ptx} %d, %a, %b;", f"{kind} {kind}", kind, lambda a, b, n=bits: a * b >> n)
        for ptx, kind, bits in (("s16", "int16", 16), ("s32", "int32", 32), ("u32", "uint32", 32), ("s64", "int64", 64), ("u64", "uint64", 64))
    ],
    of("mul.wide.s16 %d, %a, %b;", "int16 int16", "int32", lambda a, b: a * b),
    of("mul.wide.u16 %d, %a, %b;", "uint16 uint16", "uint32", lambda a, b: a * b),
    of("mul.wide.s32 %d, %a, %b;", "int32 int32", "int64", lambda a, b: a * b),
    of("mul.wide.u32 %d, %a, 12;", "uint32", "uint64", lambda a: a * 12),
    of("mul24.lo.s32 %d, %a, %b;", "int32 int32", "int32", lambda a, b: low24(a) * low24(b)),
    of("mad.lo.s32 %d, %a, %b, %c;", "int32 int32 int32", "int32", lambda a, b, c: a * b + c),
    of("mad.hi.u32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: (a * b >> 32) + c),
    of("mad.hi.sat.s32 %d, %a, %b, %c;", "int32 int32 int32", "int32", lambda a, b, c: clamped((a * b >> 32) + c, 32)),
    of("mad.wide.s32 %d, %a, %b, %c;", "int32 int32 int64", "int64", lambda a, b, c: a * b + c),
    *[
        of(f"{op}.{ptx} %d, %a, %b;", f"{kind} {kind}", kind, function)
        for ptx, kind in (("s16", "int16"), ("s32", "int32"), ("u32", "uint32"), ("s64", "int64"), ("u64", "uint64"))
        for op, function in (("div", quotient), ("rem", lambda a, b: a - b * quotient(a, b)), ("min", min), ("max", max))
    ],
    of("abs.s32 %d, %a;", "int32", "int32", abs),
    of("neg.s64 %d, %a;", "int64", "int64", lambda a: -a),
    of("and.b32 %d, %a, %b;", "uint32 uint32", "uint32", lambda a, b: a & b),
    of("or.b16 %d, %a, %b;", "uint16 uint16", "uint16", lambda a, b: a | b),
    of("xor.b64 %d, %a, %b;", "uint64 uint64", "uint64", lambda a, b: a ^ b),
    of("not.b16 %d, %a;", "uint16", "uint16", lambda a: ~a),
    of("not.b64 %d, %a;", "uint64", "uint64", lambda a: ~a),
    of("cnot.b32 %d, %a;", "uint32", "uint32", lambda a: a == 0),
    of("shl.b32 %d, %a, %b;", "uint32 uint32", "uint32", lambda a, b: a << min(b, 32)),
    of("shl.b64 %d, %a, 33;", "uint64", "uint64", lambda a: a << 33, name="shl.b64 by a constant"),
    of("shl.b16 %d, %a, %b;", "uint16 uint32", "uint16", lambda a, b: a << min(b, 16)),
    of("shr.u32 %d, %a, %b;", "uint32 uint32", "uint32", lambda a, b: a >> min(b, 32)),
    of("shr.s32 %d, %a, %b;", "int32 uint32", "int32", lambda a, b: a >> min(b, 31)),
    of("shr.s32 %d, %a, 40;", "int32", "int32", lambda a: a >> 31, name="shr.s32 by too much"),
    of("shr.s16 %d, %a, 3;", "int16", "int16", lambda a: a >> 3),
    of("shr.s64 %d, %a, %b;", "int64 uint32", "int64", lambda a, b: a >> min(b, 63)),
    of("shf.l.wrap.b32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    of("shf.r.wrap.b32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: (b << 32 | a) >> (c & 31)),
    of("shf.l.clamp.b32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    of("shf.r.clamp.b32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    of("popc.b32 %d, %a;", "uint32", "uint32", int.bit_count),
    of("popc.b64 %d, %a;", "uint64", "uint32", int.bit_count),
    of("clz.b32 %d, %a;", "uint32", "uint32", lambda a: 32 - a.bit_length()),
    of("clz.b64 %d, %a;", "uint64", "uint32", lambda a: 64 - a.bit_length()),
    of("brev.b32 %d, %a;", "uint32", "uint32", lambda a: reversed_bits(a, 32)),
    of("brev.b64 %d, %a;", "uint64", "uint64", lambda a: reversed_bits(a, 64)),
    of("bfind.u32 %d, %a;", "uint32", "uint32", lambda a: find_bit(a, 32)),
    of("bfind.s32 %d, %a;", "int32", "uint32", lambda a: find_bit(a, 32)),
    of("bfind.s64 %d, %a;", "int64", "uint32", lambda a: find_bit(a, 64)),
    of("bfind.shiftamt.u32 %d, %a;", "uint32", "uint32", lambda a: 31 - find_bit(a, 32) if a else 2**32 - 1),
    of("bfe.u32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", unsigned_extracted),
    of("bfe.s32 %d, %a, %b, %c;", "int32 uint32 uint32", "int32", lambda a, b, c: signed_extracted(a, b, c, 32)),
    of("bfe.u64 %d, %a, %b, %c;", "uint64 uint32 uint32", "uint64", unsigned_extracted),
    of("bfe.s64 %d, %a, %b, %c;", "int64 uint32 uint32", "int64", lambda a, b, c: signed_extracted(a, b, c, 64)),
    *[
        of(f"bfi.b{bits} %d, %a, %b, {position}, {length};", f"uint{bits} uint{bits}", f"uint{bits}",
           lambda a, b, p=position, n=length: (b & ~(((1 << n) - 1) << p)) | ((a & ((1 << n) - 1)) << p), name=f"bfi.b{bits} {position} {length}")
        for bits, position, length in ((32, 3, 7), (32, 0, 32), (32, 28, 9), (64, 32, 32), (64, 5, 0), (64, 60, 200))
    ],
    of("prmt.b32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [c >> 4 * i & 15 for i in range(4)])),
    of("prmt.b32.f4e %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [i + (c & 3) for i in range(4)])),
    of("prmt.b32.b4e %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [((c & 3) - i) % 8 for i in range(4)])),
    of("prmt.b32.rc8 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [c & 3] * 4)),
    of("prmt.b32.ecl %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [max(i, c & 3) for i in range(4)])),
    of("prmt.b32.ecr %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [min(i, c & 3) for i in range(4)])),
    of("prmt.b32.rc16 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: permuted(a, b, [2 * (c & 1), 2 * (c & 1) + 1] * 2)),
    *[of(f"lop3.b32 %d, %a, %b, %c, {lut};", "uint32 uint32 uint32", "uint32", table(lut), name=f"lop3 {lut}") for lut in (0x96, 0xE8, 0xCA, 0x01, 0x1D)],
    of("sad.u32 %d, %a, %b, %c;", "uint32 uint32 uint32", "uint32", lambda a, b, c: c + abs(a - b)),
    of("sad.s32 %d, %a, %b, %c;", "int32 int32 int32", "int32", lambda a, b, c: c + abs(a - b)),
    of("dp4a.s32.s32 %d, %a, %b, %c;", "uint32 uint32 int32", "int32", lambda a, b, c: c + sum(x * y for x, y in zip(signed_bytes(a), signed_bytes(b), strict=True))),
    of("dp4a.u32.s32 %d, %a, %b, %c;", "uint32 uint32 int32", "int32", lambda a, b, c: c + sum(x * y for x, y in zip(a.to_bytes(4, "little"), signed_bytes(b), strict=True))),
    of(
        "{ .reg .b32 low; add.cc.u32 low, %a, %b; addc.cc.u32 %d, %c, %c; addc.u32 %d, %d, 0; }",
        "uint32 uint32 uint32", "uint32",
        lambda a, b, c: (s := 2 * c + (a + b >> 32)) % 2**32 + (s >> 32), name="add.cc addc.cc addc",
    ),
    of(
        "{ .reg .b64 low; sub.cc.u64 low, %a, %b; subc.u64 %d, %c, 0; }",
        "uint64 uint64 uint64", "uint64", lambda a, b, c: c - (a < b), name="sub.cc subc",
    ),
    of(
        "{ .reg .b32 low; mad.lo.cc.u32 low, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0; }",
        "uint32 uint32 uint32", "uint32", lambda a, b, c: a * b + c >> 32, name="mad.lo.cc madc.hi",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def device() -> PtxDevice:
    return module("ptx_integers", CASES)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: CASES[n].name)
def test_instruction(device: PtxDevice, number: int) -> None:
    check(device, number, CASES[number])
