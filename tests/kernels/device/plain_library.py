"""The device code of the plain kernels on the emulator: a checked library for each dtype."""

import re
import struct
from functools import cache
from typing import Any

import numpy as np
import torch
from device_library import Array, Device, build_runtime
from torch.nn import functional as F

from agent.kernels import sources

PLAIN = (
    "add_layer_norm",
    "add_rms_norm",
    "cross_entropy",
    "gate_product",
    "gelu",
    "layer_norm",
    "logsumexp",
    "rms_norm",
    "rotary",
    "softmax",
)
AXES = ("batch_norm", "cumsum", "embedding_norm", "linear_cross_entropy", "masked_softmax")
NUMBERS = {"float32": 0, "float16": 1}
TOLERANCE = {"float32": 3e-6, "float16": 2e-3}
_FACE = """
extern "C" int {name}_{function}(const void* p) {{
    return kernelwright::{name}::{function}(*static_cast<const kernelwright::{name}::{struct}*>(p));
}}
"""
_DIRECTIONS = {"forward": "Forward", "backward": "Backward", "table_backward": "TableBackward"}


@cache
def library(dtype: str, kernels: tuple[str, ...] = PLAIN) -> Device:
    """With the one storage type: the three together take a minute to compile."""
    path = build_runtime().parent / f"{kernels[0]}_{dtype}.cu"
    path.write_text(code_of(kernels, dtype) + "".join(map(_face, kernels)))
    return Device(path, checked=True)


def code_of(kernels: tuple[str, ...], dtype: str) -> str:
    """The kernels' portable device code as one text, with the one storage type."""
    selected = f"#define KW_PORTABLE_ONLY\n#define KW_DTYPES {1 << NUMBERS[dtype]}\n"
    return selected + _one_text(kernels)


def _face(name: str) -> str:
    """Of the directions that its library exports: a backward may be the forward with another argument."""
    exported = sources.device_code(name)[f"{name}/csrc/library.cu"]
    return "".join(
        _FACE.format(name=name, function=function, struct=struct)
        for function, struct in _DIRECTIONS.items()
        if f"({name}, {function}," in exported
    )


def _one_text(kernels: tuple[str, ...]) -> str:
    parts: dict[str, str] = {}
    for name in kernels:
        parts |= sources.device_code(name)
    done: set[str] = set()

    def placed(path: str) -> str:
        if path in done:
            return ""
        done.add(path)
        folder = path.rpartition("/")[0]

        def include(found: re.Match[str]) -> str:
            target = f"{folder}/{found[1]}"
            while "/../" in target:
                target = re.sub(r"[^/]+/\.\./", "", target, count=1)
            return placed(target)

        text = parts[path].replace("#pragma once\n", "")
        return re.sub(r'^#include "([^"]+)"\n', include, text, flags=re.MULTILINE)

    return "".join(placed(f"{name}/csrc/launch.cuh") for name in kernels)


def run(device: Device, function: str, fields: str, *values: Any) -> None:
    """One call on the struct of these values; arrays go as their addresses, None as null."""
    plain = [
        value.ctypes.data if isinstance(value, np.ndarray) else 0 if value is None else value
        for value in values
    ]
    packed = struct.pack(f"@{fields}", *plain)
    assert device.call(function, packed) == 0
    assert device.findings() == []


def placed(device: Device, values: Array, dtype: str, offset: int) -> Array:
    """The values in device memory, `offset` elements past where vectors may be loaded."""
    room = device.empty(values.size + offset, dtype)[offset:]
    room[...] = values.astype(dtype).reshape(-1)
    return room.reshape(values.shape)


def normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, centred: bool) -> torch.Tensor:
    """torch's LayerNorm where that is centred, else its RMSNorm, of the last dimension."""
    sizes = (x.shape[-1],)
    return F.layer_norm(x, sizes, weight, bias) if centred else F.rms_norm(x, sizes, weight, 1e-5)


class Kit:
    """Inputs as they are stored, results compared with float64."""

    def __init__(
        self, dtype: str, offset: int, kernels: tuple[str, ...] = PLAIN, stored: str | None = None
    ) -> None:
        """For elements of `dtype`; those that it draws are `stored` as another one."""
        self.device: Device = library(dtype, kernels)
        self.dtype, self.offset = stored or dtype, offset
        self.random = np.random.default_rng(0)

    def draw(self, *shape: int, shift: float = 0.0) -> Array:
        return placed(self.device, self.random.standard_normal(shape) + shift, self.dtype, self.offset)

    def room(self, *shape: int) -> Array:
        return placed(self.device, np.full(shape, np.nan), self.dtype, self.offset)

    def floats(self, count: int) -> Array:
        return self.device.empty(count, "float32")

    def close(self, ours: Array, theirs: torch.Tensor) -> None:
        wanted = theirs.detach().numpy()
        scale = max(1.0, float(np.abs(wanted).max()))
        allowed = TOLERANCE[self.dtype]
        np.testing.assert_allclose(ours.astype("float64") / scale, wanted / scale, atol=allowed, rtol=allowed)


def exact(values: Array) -> torch.Tensor:
    return torch.tensor(values.astype("float64"), requires_grad=True)
