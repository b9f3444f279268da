"""Division of indices of 64 bits, which no other test is large enough to need."""

from functools import cache

import pytest
from device_library import Device, build_runtime
from kernels.device.plain_library import run

from agent.kernels.sources import ROOT

FACE = """
using kernelwright::Divisor;

__global__ void divided(const int64_t* numbers, int64_t* quotients, int64_t count, Divisor<int64_t> divisor) {
    if (threadIdx.x < count) quotients[threadIdx.x] = divisor.of(numbers[threadIdx.x]);
}

struct Division { const int64_t* numbers; int64_t* quotients; int64_t count, by; };

extern "C" int divide(const void* packed) {
    const Division& args = *static_cast<const Division*>(packed);
    divided<<<1, 64>>>(args.numbers, args.quotients, args.count, Divisor<int64_t>(args.by));
    return int(cudaGetLastError());
}
"""
LARGEST = (1 << 63) - 1


@cache
def _device() -> Device:
    path = build_runtime().parent / "divisor.cu"
    path.write_text((ROOT / "csrc/divisor.cuh").read_text().replace("#pragma once\n", "") + FACE)
    return Device(path, checked=True)


@pytest.mark.parametrize(
    "by", [1, 2, 3, 7, 1365, (1 << 31) - 1, 1 << 31, (1 << 40) + 1, (1 << 62) - 1, 1 << 62]
)
def test_quotients_of_64_bits(by: int) -> None:
    device = _device()
    last = LARGEST // by * by
    around = [value + step for value in (by, 2 * by, 1 << 31, last) for step in (-1, 0, 1)]
    wanted = [value for value in (0, LARGEST, *around) if 0 <= value <= LARGEST]
    numbers, quotients = (device.empty(len(wanted), "int64") for _ in range(2))
    numbers[...] = wanted
    run(device, "divide", "4q", numbers, quotients, len(wanted), by)
    assert quotients.tolist() == [number // by for number in wanted]
