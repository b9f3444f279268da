"""Tensor cores: every dense shape of mma.sync and wmma against numpy, and the moves that feed them."""
# ruff: noqa: E501 - tables, with one case to a row

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from device_library import Array
from ptx_cases import HEADER
from ptx_library import PtxDevice

from agent.emulator import ptx

BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4,
    "b1": 1, "f32": 32, "s32": 32,
}  # fmt: skip
SMALL = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15)}


@dataclass(frozen=True)
class Mma:
    shape: str
    d: str
    a: str
    b: str
    c: str
    more: str = ""

    def __str__(self) -> str:
        return f"{self.shape}.{self.d}.{self.a}.{self.b}.{self.c}{self.more}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, rest = self.shape[1:].split("n")
        n, k = rest.split("k")
        return int(m), int(n), int(k)


MMA = [
    *[Mma(shape, d, "f16", "f16", d) for shape in ("m16n8k8", "m16n8k16") for d in ("f16", "f32")],
    *[Mma(shape, "f32", "bf16", "bf16", "f32") for shape in ("m16n8k8", "m16n8k16")],
    *[Mma(shape, "f32", "tf32", "tf32", "f32") for shape in ("m16n8k4", "m16n8k8")],
    *[Mma(s, "f64", "f64", "f64", "f64") for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")],
    *[Mma(s, "s32", a, b, "s32") for s in ("m8n8k16", "m16n8k16", "m16n8k32") for a, b in (("s8", "s8"), ("u8", "s8"))],
    *[Mma(s, "s32", a, b, "s32") for s in ("m8n8k32", "m16n8k32", "m16n8k64") for a, b in (("s4", "u4"), ("u4", "u4"))],
    *[Mma(s, "s32", "b1", "b1", "s32", m) for s in ("m8n8k128", "m16n8k128", "m16n8k256") for m in (".xor.popc", ".and.popc")],
    Mma("m16n8k32", "f32", "e4m3", "e5m2", "f32"),
    Mma("m16n8k32", "f16", "e5m2", "e4m3", "f16"),
]  # fmt: skip


def numbers(kind: str, shape: tuple[int, int], generator: np.random.Generator) -> tuple[Array, Array]:
    """Random elements: their bits, and the numbers that these stand for."""
    if kind in ("f64", "f32", "tf32"):
        value = generator.integers(-64, 64, shape) / 8
        dtype = "float64" if kind == "f64" else "float32"
        return value.astype(dtype).view(f"uint{BITS[kind]}").astype("uint64"), value
    if kind in ("f16", "bf16"):
        value = generator.integers(-64, 64, shape) / 8
        if kind == "f16":
            return value.astype("float16").view("uint16").astype("uint64"), value
        return (value.astype("float32").view("uint32") >> 16).astype("uint64"), value
    if kind == "s32":
        whole = generator.integers(-(2**30), 2**30, shape)
        return whole.astype("int32").view("uint32").astype("uint64"), whole
    bits = generator.integers(0, 1 << BITS[kind], shape).astype("uint64")
    if kind in SMALL:
        bits = generator.choice(np.array([0x38, 0x3C, 0xB8, 0x40, 0x00]), shape).astype("uint64")
        return bits, np.vectorize(lambda word: small(int(word), *SMALL[kind]))(bits)
    signed = kind[0] == "s"
    return bits, np.where(
        signed & (bits >> (BITS[kind] - 1) == 1), bits.astype("int64") - (1 << BITS[kind]), bits
    ).astype("int64")


def small(word: int, exponent: int, fraction: int, bias: int) -> float:
    e, f = word >> fraction & (1 << exponent) - 1, word & (1 << fraction) - 1
    return (-1 if word & 0x80 else 1) * 2.0 ** (max(e, 1) - bias - fraction) * (f + (e > 0 and 1 << fraction))


def per_lane(kind: str, bits: Array, place: Callable[[int, int], tuple[int, int]]) -> Array:
    """Registers of the 32 lanes, each a word, from a matrix of bits by the places of a lane's elements."""
    each = bits.size // 32
    elements = np.array([[bits[place(lane, i)] for i in range(each)] for lane in range(32)], "uint64")
    packed = max(32 // BITS[kind], 1)
    shifts = np.arange(packed, dtype="uint64") * np.uint64(BITS[kind] % 64)
    words: Array = (elements.reshape(32, -1, packed) << shifts).sum(-1).astype("uint64")
    return words


def fragments(mma: Mma) -> tuple[Callable[[int, int], tuple[int, int]], ...]:
    """Where element i of a lane lies in A, B and C, in the words of the PTX ISA."""
    m, _, _ = mma.sizes
    in_a, in_b = max(32 // BITS[mma.a], 1), max(32 // BITS[mma.b], 1)

    def a(lane: int, i: int) -> tuple[int, int]:
        register, element = divmod(i, in_a)
        down = register % 2 if m == 16 else 0
        right = register // 2 if m == 16 else register
        return lane // 4 + 8 * down, lane % 4 * in_a + element + 4 * in_a * right

    def b(lane: int, i: int) -> tuple[int, int]:
        register, element = divmod(i, in_b)
        return lane % 4 * in_b + element + 4 * in_b * register, lane // 4

    def c(lane: int, i: int) -> tuple[int, int]:
        return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2

    return a, b, c


def kernel(name: str, mma: Mma, counts: tuple[int, ...]) -> str:
    """Loads each lane's registers (words of 64 bits) and stores those of D."""
    parts, declared = [], []
    for letter, kind, count in zip("dabc", (mma.d, mma.a, mma.b, mma.c), counts, strict=True):
        register = "f64" if kind == "f64" else "b32"
        declared.append(f".reg .{register} %{letter}<{count}>;")
        parts.append(f"{{{', '.join(f'%{letter}{i}' for i in range(count))}}}")
    lines = [f".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{"]
    lines += [".reg .b64 %p, %q; .reg .b32 %i;", *declared, "mov.u32 %i, %tid.x;"]

    def moves(letter: str, kind: str, count: int, *, store: bool) -> None:
        lines.append(f"ld.param.u64 %p, [p{letter}]; mad.wide.u32 %p, %i, {8 * count}, %p;")
        for i in range(count):
            if store:
                low = f"st.global.{'f64' if kind == 'f64' else 'b32'} [%p+{8 * i}], %{letter}{i};"
                lines.append(low)
            else:
                lines.append(f"ld.global.{'f64' if kind == 'f64' else 'b32'} %{letter}{i}, [%p+{8 * i}];")

    for letter, kind, count in zip("abc", (mma.a, mma.b, mma.c), counts[1:], strict=True):
        moves(letter, kind, count, store=False)
    types = f"{mma.d}.{mma.a}.{mma.b}.{mma.c}"
    lines.append(f"mma.sync.aligned.{mma.shape}.row.col.{types}{mma.more} {', '.join(parts)};")
    moves("d", mma.d, counts[0], store=True)
    return "\n".join([*lines, "ret; }"])


def counts_of(mma: Mma) -> tuple[int, ...]:
    m, n, k = mma.sizes

    def registers(kind: str, elements: int) -> int:
        return elements if BITS[kind] >= 32 else elements * BITS[kind] // 32

    return (
        registers(mma.d, m * n // 32), registers(mma.a, m * k // 32), registers(mma.b, n * k // 32),
        registers(mma.c, m * n // 32),
    )  # fmt: skip


@pytest.fixture(scope="module")
def device() -> PtxDevice:
    text = HEADER + "\n".join(kernel(f"case_{i}_", mma, counts_of(mma)) for i, mma in enumerate(MMA))
    return PtxDevice(Path("ptx_matrix.cu"), text)


@pytest.mark.parametrize("number", range(len(MMA)), ids=lambda n: str(MMA[n]))
def test_mma(device: PtxDevice, number: int) -> None:
    """Numbers whose sums are exact in every format: only the places of elements decide."""
    mma, generator = MMA[number], np.random.default_rng(number)
    m, n, k = mma.sizes
    at_a, at_b, at_c = fragments(mma)
    (a_bits, a), (b_bits, b) = numbers(mma.a, (m, k), generator), numbers(mma.b, (k, n), generator)
    c_bits, c = numbers(mma.c, (m, n), generator)
    words = [
        per_lane(kind, bits, at)
        for kind, bits, at in ((mma.a, a_bits, at_a), (mma.b, b_bits, at_b), (mma.c, c_bits, at_c))
    ]
    result = device.array(np.zeros((32, counts_of(mma)[0])), "uint64")
    device.launch(f"case_{number}_", 1, 32, *(device.array(w, "uint64") for w in words), result)
    assert device.findings() == []
    if mma.a == "b1":
        products = a[:, :, None] ^ b[None] if "xor" in mma.more else a[:, :, None] & b[None]
        expected = c + products.sum(1)
    else:
        expected = c + a @ b
    if mma.d == "f16":
        expected_bits = expected.astype("float16").view("uint16").astype("uint64")
    elif mma.d == "s32":
        expected_bits = expected.astype("int64").astype("int32").view("uint32").astype("uint64")
    else:
        wide = expected.astype("float64" if mma.d == "f64" else "float32")
        expected_bits = wide.view(f"uint{BITS[mma.d]}").astype("uint64")
    np.testing.assert_array_equal(result, per_lane(mma.d, expected_bits, at_c))


def one_tile(device: PtxDevice, a: Array, b: Array, c: float) -> float:
    """One element of mma.m16n8k16 of halves: the sum of a * b and c."""
    number = next(i for i, mma in enumerate(MMA) if str(mma) == "m16n8k16.f32.f16.f16.f32")
    at_a, at_b, at_c = fragments(MMA[number])
    rows, columns, start = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8), "float32")
    rows[0], columns[:, 0], start[0, 0] = a, b, c
    halves = (x.astype("float16").view("uint16").astype("uint64") for x in (rows, columns))
    words = [per_lane("f16", x, at) for x, at in zip(halves, (at_a, at_b), strict=True)]
    words.append(per_lane("f32", start.view("uint32").astype("uint64"), at_c))
    result = device.array(np.zeros((32, 4)), "uint64")
    device.launch(f"case_{number}_", 1, 32, *(device.array(w, "uint64") for w in words), result)
    return float(result[0, 0].astype("uint32").view("float32"))


def ramp(*values: float) -> Array:
    return np.array([*values, *[0.0] * (16 - len(values))])


@pytest.mark.parametrize(
    ("products", "start", "expected"),
    [
        pytest.param(ramp(1, 2**-12), 0.0, 1 + 2**-12, id="exact products"),
        pytest.param(ramp(2**-11), 4096.0, 4096.0 + 2**-11, id="the last bit of a float"),
        pytest.param(ramp(2**-12, 2**-13), 4096.0, 4096.0, id="what does not fit is cut off"),
        pytest.param(ramp(2**-12, 2**-13), -4096.0, -4096.0 + 2**-11, id="towards zero"),
        pytest.param(ramp(*[2**-13] * 4), 4096.0, 4096.0 + 2**-11, id="two bits more are kept while adding"),
        pytest.param(ramp(*[2**-15] * 15), 4096.0, 4096.0, id="beyond them summands vanish one by one"),
        pytest.param(
            ramp(2048, -2048, 2**-24), 0.0, 0.0, id="alignment is with the largest, though it goes out"
        ),
        pytest.param(ramp(2**-24, 2**-24), 0.0, 2**-23, id="subnormal halves count"),
    ],
)
def test_how_sums_are_rounded(device: PtxDevice, products: Array, start: float, expected: float) -> None:
    """docs/tensor-cores.md, the inputs that decide its claims."""
    assert one_tile(device, products, np.ones(16), start) == expected


def test_infinities_and_nan(device: PtxDevice) -> None:
    infinite = ramp(np.inf, 1)
    assert one_tile(device, infinite, np.ones(16), 1.0) == np.inf
    assert np.isnan(one_tile(device, infinite, np.ones(16), -np.inf))
    assert np.isnan(one_tile(device, infinite, ramp(0, 1), 0.0))


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f0,%f0,%f0}, {%r0,%r0}, {%r0,%r0}, {%f0,%f0,%f0,%f0}, %r0, 0;",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r0}, {%r0}, {%f0};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0,%f0,%f0,%f0}, {%r0,%r0,%r0,%r0}, {%r0,%r0}, {%f0,%f0,%f0,%f0};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {%f0}, {%r0}, {%r0}, {%f0};",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0}, [%r0];",
    ],
)
def test_what_is_not_known_is_named(instruction: str) -> None:
    text = f"{HEADER}.visible .entry k() {{ .reg .b32 %r<2>; .reg .f32 %f<2>; {instruction} ret; }}"
    with pytest.raises(ptx.Untranslated) as raised:
        ptx.unit(text, ["x.cu"])
    assert str(raised.value).startswith(instruction.split(" ")[0])
