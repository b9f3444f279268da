"""Softmax of rows in shared memory, which only GPUs with clusters take: here by teams of one block."""

from functools import cache

import numpy as np
import pytest
from device_library import Device, build_runtime
from kernels.device.plain_library import NUMBERS, TOLERANCE, code_of, exact, placed, run

FACE = """
struct Rows { const void* x; void* y; int64_t rows, length, bytes; };

extern "C" int kept(const void* packed) {
    using T = STORED;
    const Rows& args = *static_cast<const Rows*>(packed);
    kernelwright::softmax::kept_rows<T, kernelwright::kVector<T>>
        <<<unsigned(args.rows), kernelwright::softmax::kKeptThreads, size_t(args.bytes)>>>(
            static_cast<const T*>(args.x), static_cast<T*>(args.y), args.rows, args.length);
    return int(cudaGetLastError());
}
"""
STORED = {"float32": "float", "float16": "__half"}


@cache
def _device(dtype: str) -> Device:
    path = build_runtime().parent / f"kept_{dtype}.cu"
    text = code_of(("softmax",), dtype)
    path.write_text(text + FACE.replace("STORED", STORED[dtype]))
    return Device(path, checked=True)


@pytest.mark.parametrize("dtype", list(NUMBERS))
@pytest.mark.parametrize("length", [8, 777, 2048, 4103, 10_007])
def test_rows_in_shared_memory(length: int, dtype: str) -> None:
    device, rows, threads, vector = _device(dtype), 3, 256, 16
    values = np.random.default_rng(0).standard_normal((rows, length)) * 4
    values[1, length // 2] = -np.inf
    x = placed(device, values, dtype, 0)
    y = placed(device, np.full((rows, length), np.nan), dtype, 0)
    packs = length * x.itemsize // vector
    run(device, "kept", "5q", x, y, rows, length, -(-packs // threads) * threads * vector)
    wanted = exact(x).softmax(1).detach().numpy()
    np.testing.assert_allclose(y.astype("float64"), wanted, atol=1e-7, rtol=TOLERANCE[dtype])
