"""Exact rounding of fractions to floating-point formats, straight from the definition."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from device_library import Array


class Format(NamedTuple):
    dtype: str
    """Name of the numpy type that holds the values, or for bfloat16 their bits."""
    fraction_bits: int
    bias: int


FORMATS = {
    "f16": Format("float16", 10, 15),
    "bf16": Format("uint16", 7, 127),
    "f32": Format("float32", 23, 127),
    "f64": Format("float64", 52, 1023),
}


def rounded(value: Fraction, form: Format, mode: str) -> Fraction | float:
    """Round a value to the format. `mode` is PTX's rn, rz, rm or rp."""
    if value == 0:
        return Fraction(0)
    size = abs(value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, 1 - form.bias)
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - form.fraction_bits)
    whole, rest = divmod(value, unit)
    up = {"rm": False, "rp": rest > 0, "rz": rest > 0 and value < 0}.get(mode)
    if up is None:
        up = rest > unit / 2 or (rest == unit / 2 and whole % 2 == 1)
    result = (whole + up) * unit
    largest = (2 - Fraction(1, 2**form.fraction_bits)) * Fraction(2) ** form.bias
    if abs(result) <= largest:
        return result
    outward = mode == "rn" or mode == ("rp" if value > 0 else "rm")
    sign = 1 if value > 0 else -1
    return sign * math.inf if outward else sign * largest


def array(values: Iterable[Fraction | float], form: Format) -> Array:
    """Return values as an array. The format has to represent them exactly."""
    if form.dtype != "uint16":
        return np.array([float(value) for value in values], form.dtype)
    return (
        np.array([float(value) for value in values], "float32").view("uint32").__rshift__(16).astype("uint16")
    )


def fractions(values: Array) -> list[Fraction]:
    """Return the exact values of an array. uint16 arrays hold the bits of bfloat16."""
    if values.dtype == np.uint16:
        values = (values.astype("uint32") << 16).view("float32")
    return [Fraction(float(value)) for value in values]


def samples(form: Format, seed: int, count: int = 96) -> Array:
    """Return random finite values; most exponents are close together, the rest span the whole range."""
    generator = np.random.default_rng(seed)
    near = generator.integers(-4, 5, count)
    far = generator.integers(2 - form.bias - form.fraction_bits, form.bias + 1, count)
    exponents = np.where(generator.random(count) < 0.7, near, far)
    scale = 2**form.fraction_bits
    significands = generator.integers(0, 2 * scale, count)
    signs = generator.choice([-1, 1], count)
    exact = [
        rounded(Fraction(int(s) * int(m), scale) * Fraction(2) ** int(e), form, "rz")
        for s, m, e in zip(signs, significands, exponents, strict=True)
    ]
    return array(exact, form)
