"""The device code of GroupNorm on the emulator: a checked library for each dtype, called on numpy arrays."""

import ctypes
import re
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from device_library import Array, Device, build_runtime

from agent.kernels import sources

CSRC = Path(__file__).parents[3] / "agent" / "kernels" / "group_norm" / "csrc"
DTYPES = ["float32", "float16", "bfloat16"]
ACTIVATIONS = ["none", "silu", "gelu", "relu", "tanh", "hardswish"]
_INCLUDE = re.compile(r'^#include "([\w./]+)"\n', re.MULTILINE)
_FACE = """
using namespace kernelwright::group_norm;
extern "C" int run_forward(const Forward* f) { return forward(*f); }
extern "C" int run_backward(const Backward* b) { return backward(*b); }
extern "C" int forward_bytes(const Forward* f) { return static_cast<int>(forward_workspace(*f)); }
extern "C" int backward_bytes(const Backward* b) { return static_cast<int>(backward_workspace(*b)); }
"""
FORWARD, BACKWARD = struct.Struct("<8Q9qd2Q"), struct.Struct("<12Q9q2Q")


class Sizes(NamedTuple):
    """Of x; `spatial` is the product of the dimensions after the channels."""

    n: int
    channels: int
    spatial: int
    groups: int


class Options(NamedTuple):
    dtype: str = "float32"
    channels_last: bool = False
    act: str = "none"
    float_parameters: bool = False
    """Weight and bias in float32, whatever x is."""


def one_text(names: Sequence[str], instead: Mapping[str, Path] | None = None) -> str:
    """The files and what they include from beside them, each once; another file where `instead` names one.

    Launches are the portable ones: translated to C++ none overlap, and a cluster is one block.
    """
    seen: set[Path] = set()

    def inlined(path: Path) -> str:
        path = (instead or {}).get(path.name, path)
        if path in seen:
            return ""
        seen.add(path)
        text = path.read_text().replace("#pragma once\n", "")
        if path.name == "launched.cuh":
            text = sources.as_portable(text)
        return _INCLUDE.sub(lambda found: inlined((path.parent / found[1]).resolve()), text)

    return "".join(inlined(CSRC / name) for name in names)


@cache
def library(dtype: str) -> Device:
    source = build_runtime().parent / f"group_norm_{dtype}.cu"
    selected = f"#define KW_PORTABLE_ONLY\n#define KW_DTYPES {1 << DTYPES.index(dtype)}\n"
    source.write_text(selected + one_text(["launch.cuh"]) + _FACE)
    return Device(source, checked=True)


def stored(values: Array, dtype: str) -> Array:
    """As `dtype`; bfloat16 as its bits, rounded to even."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype("float32").view("uint32")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype("uint16")


def read(values: Array, dtype: str) -> Array:
    """As float64."""
    if dtype != "bfloat16":
        return values.astype("float64")
    return (values.astype("uint32") << 16).view("float32").astype("float64")


def storage(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


class Call:
    """Device memory of one call, and the structs that name it."""

    def __init__(self, sizes: Sizes, options: Options, offset: int = 0, device: Device | None = None) -> None:
        self.sizes, self.options, self.offset = sizes, options, offset
        self.device = device or library(options.dtype)
        self.parameters = "float32" if options.float_parameters else options.dtype

    def tensor(self, values: Array | None) -> Array | None:
        """In device memory, `offset` elements past a 16-byte boundary; values are [n, channels, spatial]."""
        if values is None:
            return None
        if self.options.channels_last:
            values = values.transpose(0, 2, 1)
        placed = self.output()
        placed[...] = stored(values, self.options.dtype).reshape(-1)
        return placed

    def output(self) -> Array:
        n, channels, spatial, _ = self.sizes
        kind = storage(self.options.dtype)
        return self.device.empty(n * channels * spatial + self.offset, kind)[self.offset :]

    def parameter(self, values: Array | None) -> Array | None:
        if values is None:
            return None
        return self.device.array(stored(values, self.parameters), storage(self.parameters))

    def result(self, values: Array) -> Array:
        """A tensor as [n, channels, spatial] in float64."""
        n, channels, spatial, _ = self.sizes
        wide = read(values, self.options.dtype)
        if self.options.channels_last:
            return wide.reshape(n, spatial, channels).transpose(0, 2, 1)
        return wide.reshape(n, channels, spatial)

    def forward(
        self, x: Array, residual: Array | None, weight: Array | None, bias: Array | None
    ) -> list[Array]:
        """y, mean and rstd."""
        statistics = (self.sizes.n, self.sizes.groups)
        y, mean, rstd = self.output(), self.device.empty(statistics), self.device.empty(statistics)
        named = [
            self.tensor(x),
            self.tensor(residual),
            self.parameter(weight),
            self.parameter(bias),
            y,
            mean,
            rstd,
        ]
        self._run("forward", FORWARD, named, [1e-5])
        return [self.result(y), mean.astype("float64"), rstd.astype("float64")]

    def backward(self, tensors: Sequence[Array | None], parameters: Sequence[Array | None],
                 statistics: Sequence[Array]) -> list[Array]:  # fmt: skip
        """dx, dresidual, dweight, dbias of (dy, x, residual), (weight, bias), (mean, rstd)."""
        kept = [self.device.array(values) for values in statistics]
        dx, dresidual = self.output(), self.output()
        kind = storage(self.parameters)
        dweight, dbias = (self.device.empty(self.sizes.channels, kind) for _ in range(2))
        named = [
            *[self.tensor(values) for values in tensors],
            *[self.parameter(values) for values in parameters],
            *kept, dx, dresidual, dweight, dbias,
        ]  # fmt: skip
        self._run("backward", BACKWARD, named, [])
        of_parameters = [read(values, self.parameters) for values in (dweight, dbias)]
        return [self.result(dx), self.result(dresidual), *of_parameters]

    def packed(
        self, layout: struct.Struct, named: Sequence[Array | None], workspace: int, last: Sequence[float]
    ) -> Any:
        """The struct of interface.h."""
        codes = [DTYPES.index(self.options.dtype), DTYPES.index(self.parameters)]
        codes += [int(self.options.channels_last), ACTIVATIONS.index(self.options.act), 0]
        pointers = [0 if values is None else values.ctypes.data for values in named]
        return ctypes.create_string_buffer(
            layout.pack(*pointers, workspace, *self.sizes, *codes, *last, 0, 0)
        )

    def _run(
        self, name: str, layout: struct.Struct, named: Sequence[Array | None], last: Sequence[float]
    ) -> None:
        self.device.runtime.kw_clear_findings()
        size = self.device.call(f"{name}_bytes", self.packed(layout, named, 0, last))
        workspace = self.device.empty(size, "uint8").ctypes.data if size else 0
        assert self.device.call(f"run_{name}", self.packed(layout, named, workspace, last)) == 0
        assert self.device.findings() == []
