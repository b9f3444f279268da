"""Cumulative sums of columns by strips, which only GPUs with clusters take."""

from functools import cache

import numpy as np
import pytest
from device_library import Device, build_runtime
from kernels.device.plain_library import NUMBERS, TOLERANCE, code_of, placed, run

FACE = """
struct Columns { const void* x; void* y; int64_t outer, length, packs, reverse; };

extern "C" int strips(const void* packed) {
    using namespace kernelwright;
    using Of = Pack<STORED, kVector<STORED>>;
    const Columns& args = *static_cast<const Columns*>(packed);
    return cumsum::launch_strips(
        static_cast<const Of*>(args.x), static_cast<Of*>(args.y), args.outer, args.length, args.packs,
        args.reverse != 0, nullptr);
}
"""
STORED = {"float32": "float", "float16": "__half"}


@cache
def _device(dtype: str) -> Device:
    path = build_runtime().parent / f"strips_{dtype}.cu"
    path.write_text(code_of(("cumsum",), dtype) + FACE.replace("STORED", STORED[dtype]))
    return Device(path, checked=True)


@pytest.mark.parametrize("dtype", list(NUMBERS))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("length", "packs"), [(3, 4), (256, 5), (2100, 3)])
def test_columns_by_strips(length: int, packs: int, reverse: bool, dtype: str) -> None:
    """Fewer rows than a stage, as many, and more than all stages hold; strips that are not all there."""
    device, outer = _device(dtype), 2
    values = np.random.default_rng(0).standard_normal((outer, length, packs * 16 // np.dtype(dtype).itemsize))
    x = placed(device, values, dtype, 0)
    y = placed(device, np.full(values.shape, np.nan), dtype, 0)
    run(device, "strips", "6q", x, y, outer, length, packs, reverse)
    exact = x.astype("float64")
    wanted = np.flip(np.flip(exact, 1).cumsum(1), 1) if reverse else exact.cumsum(1)
    scale = np.abs(exact).sum(1, keepdims=True)
    assert (np.abs(y - wanted) <= TOLERANCE[dtype] * np.maximum(scale, 1)).all()
