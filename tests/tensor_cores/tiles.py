"""Tiles of numbers that decide how tensor cores add up: 64 rows of a, 8 columns of b, sums to start from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ROWS, COLUMNS = 64, 8


@dataclass(frozen=True)
class Format:
    """How bits stand for a number; `low` bits below the fraction are not looked at."""

    bits: int
    exponent: int
    fraction: int
    low: int = 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def top(self) -> int:
        """The largest exponent; e4m3 has numbers where others have infinities."""
        return self.bias + (self.exponent == 4)

    @property
    def minus(self) -> np.int64:
        """The bit of the sign, in words of 64 bits."""
        return np.int64(-(1 << 63) if self.bits == 64 else 1 << (self.bits - 1))

    @property
    def word(self) -> str:
        return f"uint{self.bits}"


FORMATS = {
    "f16": Format(16, 5, 10), "bf16": Format(16, 8, 7), "tf32": Format(32, 8, 10, low=13),
    "f32": Format(32, 8, 23), "f64": Format(64, 11, 52), "e4m3": Format(8, 4, 3), "e5m2": Format(8, 5, 2),
}  # fmt: skip


def number(form: Format, sign: Array, exponent: Array, fraction: Array) -> Array:
    """The bits of (-1)^sign 2^exponent (1 + fraction / 2^(bits of it)), as near as the format has it."""
    field = exponent + form.bias
    whole = fraction | (1 << form.fraction)
    small = whole >> np.clip(1 - field, 0, form.fraction + 2)
    most = (1 << form.fraction) - 1 - (form.exponent == 4)
    large = ((form.top + form.bias) << form.fraction) + most
    bits = np.where(field < 1, small, (field << form.fraction) + (fraction & ((1 << form.fraction) - 1)))
    bits = np.where(exponent > form.top, large, np.minimum(bits, large))
    return ((sign << (form.exponent + form.fraction)) | bits) << form.low


@dataclass(frozen=True)
class Draw:
    """Draws the numbers of `count` tiles."""

    generator: np.random.Generator
    a: Format
    b: Format
    c: Format
    count: int
    depth: int

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return (
            (self.count, ROWS, self.depth),
            (self.count, COLUMNS, self.depth),
            (self.count, ROWS, COLUMNS),
        )

    def whole(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        return self.generator.integers(low, high + 1, shape, dtype=np.int64)

    def any(self, form: Format, exponent: Array) -> Array:
        """Numbers of those exponents; one in three with nothing but zeros or ones behind the first bit."""
        fraction = self.whole(0, (1 << form.fraction) - 1, exponent.shape)
        plain = self.whole(0, 5, exponent.shape)
        fraction = np.where(plain == 0, 0, np.where(plain == 1, (1 << form.fraction) - 1, fraction))
        return number(form, self.whole(0, 1, exponent.shape), exponent, fraction)

    def around(self, form: Format, centre: int, width: int, shape: tuple[int, ...]) -> Array:
        return self.any(form, self.whole(centre - width, centre + width, shape))


Tiles = tuple[Array, Array, Array]


def near(draw: Draw) -> Tiles:
    a, b, c = draw.shapes()
    return draw.around(draw.a, 0, 1, a), draw.around(draw.b, 0, 1, b), draw.around(draw.c, 1, 3, c)


def wide(draw: Draw) -> Tiles:
    """Exponents far apart, each tile by its own measure."""
    a, b, c = draw.shapes()
    width = draw.whole(1, 15, (draw.count, 1, 1))
    one, two, three = (draw.generator.random(s) * 2 - 1 for s in (a, b, c))
    return (
        draw.any(draw.a, (one * width).astype(np.int64)),
        draw.any(draw.b, (two * width).astype(np.int64)),
        draw.any(draw.c, (three * 2 * width).astype(np.int64)),
    )


def cancelled(draw: Draw) -> Tiles:
    """Half of the products go out against the others, in any places, but for a last bit here and there."""
    a, b, c = draw.shapes()
    half = draw.depth // 2
    x = draw.around(draw.a, 0, 6, (*a[:2], half))
    y = draw.around(draw.b, 0, 3, (*b[:2], half))
    minus = x ^ draw.a.minus
    odd = draw.generator.random(x.shape) < 0.1
    minus = np.where(odd, minus ^ (1 << draw.a.low), minus)
    order = draw.generator.permuted(np.tile(np.arange(draw.depth), (draw.count, 1)), axis=1)[:, None]
    x, y = np.concatenate([x, minus], -1), np.concatenate([y, y], -1)
    tiny = draw.around(draw.c, -14, 12, c)
    return np.take_along_axis(x, order, -1), np.take_along_axis(y, order, -1), tiny


def one_large(draw: Draw) -> Tiles:
    """One product far above the others, by as many powers of two as the number of the row says."""
    a, b, c = draw.shapes()
    distance = np.arange(ROWS)[None, :, None] % 34
    place = draw.whole(0, draw.depth - 1, (draw.count, ROWS, 1))
    here = np.arange(draw.depth)[None, None] == place
    high = min(draw.a.top - 1, 14)
    exponent = np.where(here, high, np.maximum(high - distance, 1 - draw.a.bias - draw.a.fraction))
    x = draw.any(draw.a, exponent)
    y = draw.around(draw.b, 0, 0, b)
    gone = draw.generator.random(c) < 0.5
    start = draw.any(draw.c, (high - distance + draw.whole(-2, 2, c)))
    return x, y, np.where(gone, 0, start)


def large_start(draw: Draw) -> Tiles:
    """The sum that is started from is far above the products."""
    a, b, c = draw.shapes()
    distance = np.arange(ROWS)[None, :, None] % 32
    x, y = draw.around(draw.a, 0, 1, a), draw.around(draw.b, 0, 0, b)
    thin = draw.generator.random(a) < 0.5
    return np.where(thin, 0, x), y, draw.any(draw.c, np.broadcast_to(distance, c))


def goes_out(draw: Draw) -> Tiles:
    """Two large products, one against the other, at any two places; the rest is small."""
    a, b, c = draw.shapes()
    high = min(draw.a.top - 1, 12)
    distance = draw.whole(1, 30, (draw.count, ROWS, 1))
    x = draw.any(draw.a, np.maximum(high - distance, 1 - draw.a.bias) + np.zeros(a, np.int64))
    y = number(draw.b, *(np.zeros(b, np.int64) for _ in range(3)))
    y = np.where(draw.generator.random(b) < 0.3, y ^ (1 << (draw.b.low + draw.b.fraction - 1)), y)
    places = np.argsort(draw.generator.random(a), -1)
    one = number(draw.a, np.zeros(a, np.int64), np.full(a, high), draw.whole(0, 1, a))
    x = np.where(places == 0, one, np.where(places == 1, one ^ draw.a.minus, x))
    sign = draw.whole(0, 1, c)
    start = number(draw.c, sign, high - distance - draw.whole(0, 12, c), draw.whole(0, 3, c))
    return x, y, start


def carried(draw: Draw) -> Tiles:
    """All of one sign with every bit set: the longest carries."""
    a, b, c = draw.shapes()
    tile = draw.whole(0, 2, (draw.count, 1, 1))
    x = number(
        draw.a, np.zeros(a, np.int64), -draw.whole(0, 4, a) * tile, np.full(a, (1 << draw.a.fraction) - 1)
    )
    y = number(
        draw.b, np.zeros(b, np.int64), -draw.whole(0, 4, b) * tile, np.full(b, (1 << draw.b.fraction) - 1)
    )
    z = number(draw.c, draw.whole(0, 1, c), draw.whole(-4, 8, c), np.full(c, (1 << draw.c.fraction) - 1))
    return x, y, z


def subnormal(draw: Draw) -> Tiles:
    """Below the smallest normal numbers: factors, products and sums."""
    a, b, c = draw.shapes()
    low = [1 - form.bias - form.fraction for form in (draw.a, draw.b, draw.c)]
    tile = draw.whole(0, 3, (draw.count, 1, 1))
    x = draw.any(draw.a, low[0] + draw.whole(-1, draw.a.fraction + 3, a))
    up = np.where(tile == 0, 0, np.where(tile == 1, 1 - low[1], 4 - low[1] // 2))
    y = draw.any(draw.b, low[1] + draw.whole(0, draw.b.fraction + 3, b) + up)
    near_products = low[0] + low[1] + up
    z = np.where(tile == 3, low[2], np.maximum(near_products, low[2])) + draw.whole(-1, 24, c)
    return x, y, draw.any(draw.c, z)


def overflowing(draw: Draw) -> Tiles:
    """About the largest numbers, of factors and of sums."""
    a, b, c = draw.shapes()
    half = draw.c.top // 2
    x, y = draw.around(draw.a, min(draw.a.top, half), 2, a), draw.around(draw.b, min(draw.b.top, half), 2, b)
    return x, y, draw.around(draw.c, draw.c.top, 1, c)


def special(draw: Draw) -> Tiles:
    """Zeros of both signs, infinities and NaN among plain numbers."""
    x, y, z = near(draw)

    def strewn(bits: Array, form: Format, often: float) -> Array:
        ones = ((1 << form.exponent) - 1) << form.fraction
        payload = draw.whole(0, (1 << form.fraction) - 1, bits.shape)
        kinds = draw.whole(0, 3, bits.shape)
        other = np.where(kinds == 0, ones, np.where(kinds == 1, ones | payload, 0))
        other = (other | draw.whole(0, 1, bits.shape) << (form.exponent + form.fraction)) << form.low
        return np.where(draw.generator.random(bits.shape) < often, other, bits)

    return (
        strewn(x, draw.a, 0.3 / draw.depth),
        strewn(y, draw.b, 0.3 / draw.depth),
        strewn(z, draw.c, 0.2),
    )


def zeros(draw: Draw) -> Tiles:
    """Products of zeros with all signs, started from zeros and from the smallest numbers."""
    a, b, c = draw.shapes()
    x = draw.whole(0, 1, a) << (draw.a.bits - 1)
    y = draw.any(draw.b, np.zeros(b, np.int64))
    y = np.where(draw.whole(0, 1, (draw.count, COLUMNS, 1)) == 0, y & draw.b.minus, y)
    y = np.where(draw.whole(0, 1, (draw.count, 1, 1)) == 0, y, y | draw.b.minus)
    x = np.where(draw.whole(0, 1, (draw.count, ROWS, 1)) == 0, x, x | draw.a.minus)
    z = draw.whole(0, 1, c) << (draw.c.bits - 1)
    return x, y, np.where(draw.whole(0, 3, c) == 0, z | draw.whole(0, 2, c), z)


def low_bits(draw: Draw) -> Tiles:
    """As `near`; bits that a format leaves aside are set at random."""
    x, y, z = near(draw)
    return (
        x | draw.whole(0, (1 << draw.a.low) - 1, x.shape),
        y | draw.whole(0, (1 << draw.b.low) - 1, y.shape),
        z,
    )


def one_product(draw: Draw) -> Tiles:
    """A product or two and nothing else, beside a start of about their size."""
    a, b, c = draw.shapes()
    places = np.argsort(draw.generator.random(a), -1)
    x = np.where(places < draw.whole(1, 3, (draw.count, ROWS, 1)), draw.around(draw.a, 0, 5, a), 0)
    return x, draw.around(draw.b, 0, 2, b), draw.around(draw.c, 0, 30, c)


KINDS: tuple[Callable[[Draw], Tiles], ...] = (
    near, wide, cancelled, one_large, large_start, goes_out, carried, subnormal, overflowing, special, zeros,
    low_bits, one_product,
)  # fmt: skip


def tiles(formats: tuple[str, str, str], depth: int, each: int, seed: int) -> Tiles:
    """`each` tiles of every kind, the kinds in turn: bits of a (rows), of b (columns) and of c."""
    a, b, c = (FORMATS[name] for name in formats)
    key = crc32(f"{formats} {depth} {seed}".encode())
    drawn = [
        kind(Draw(np.random.Generator(np.random.PCG64([key, i])), a, b, c, each, depth))
        for i, kind in enumerate(KINDS)
    ]
    parts = []
    for index, form in enumerate((a, b, c)):
        stacked = np.stack([one[index] for one in drawn], 1)
        parts.append(np.ascontiguousarray(stacked.reshape(-1, *stacked.shape[2:]).astype(form.word)))
    return parts[0], parts[1], parts[2]
