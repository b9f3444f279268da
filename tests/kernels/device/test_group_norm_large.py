"""The streamed path on the emulator, sm_90's instructions replaced: roles, ring, teams, sums."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import BACKWARD, FORWARD, Call, Options, Sizes, one_text

STAND_IN = {"sm90_instructions.cuh": Path(__file__).with_name("sm90_stand_in.cuh")}
FACE = """
using namespace kernelwright::group_norm;
using namespace kernelwright::group_norm::sm90;
template <class Call>
Share shared_out(const Call& call, int teams, int members, int chunk) {
    const int64_t count = call.channels / call.groups * call.spatial;
    const int chunks = int((count * 4 + chunk - 1) / chunk);
    return {teams, members, int(call.n * call.groups), chunks, count * 4, 1.0 / count};
}
template <class Kernel>
void allow(Kernel kernel) {
    cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
}
extern "C" int run_forward(const Forward* f, int fused, int teams, int members, double* cells) {
    const Share share = shared_out(*f, teams, members, kSlotBytes);
    cudaMemset(cells, kUnwritten, share.rows * members * 16);
    const auto kernel = fused ? stream_forward<float, false> : stream_forward<float, true>;
    allow(kernel);
    kernel<<<teams * members, kThreads, kSharedBytes>>>(*f, share, cells);
    return cudaGetLastError();
}
extern "C" int run_backward(const Backward* b, int teams, int members, double* cells, Sums* sums) {
    const Share share = shared_out(*b, teams, members, kPairBytes);
    cudaMemset(cells, kUnwritten, share.rows * members * 16);
    const auto kernel = stream_backward<float>;
    allow(kernel);
    kernel<<<teams * members, kThreads, kSharedBytes>>>(*b, share, cells, sums);
    channel_gradients<float><<<b->channels, kChannelThreads>>>(*b, sums, b->spatial * 4 / kPairBytes);
    return cudaGetLastError();
}
"""
CALLS = [
    (Sizes(3, 4, 1024, 2), 1, 1),  # one block: two chunks of each row
    (Sizes(3, 4, 2560, 2), 2, 2),  # two teams, rows in turn
    (Sizes(2, 8, 1500, 1), 1, 4),  # chunks that straddle channels, and a cut one
    (Sizes(5, 8, 1500, 1), 2, 4),
    (Sizes(2, 4, 65536, 1), 1, 2),  # more chunks than slots
]


@cache
def built() -> Device:
    source = build_runtime().parent / "group_norm_large.cu"
    source.write_text(one_text(["sm90_stream_backward.cuh", "sm90_stream_forward.cuh"], STAND_IN) + FACE)
    return Device(source)


def run(fused: bool, sizes: Sizes, teams: int, members: int, x: Array) -> list[Array]:
    """y, mean and rstd."""
    call = Call(sizes, Options(), device=built())
    device = call.device
    weight, bias = np.linspace(0.5, 2, sizes.channels), np.linspace(-1, 1, sizes.channels)
    y = call.output()
    mean, rstd = (device.empty((sizes.n, sizes.groups)) for _ in range(2))
    named = [call.tensor(x), None, call.parameter(weight), call.parameter(bias), y, mean, rstd]
    cells = device.empty(sizes.n * sizes.groups * members * 2, "float64")
    arguments = (int(fused), teams, members, cells)
    assert device.call("run_forward", call.packed(FORWARD, named, 0, [1e-5]), *arguments) == 0
    return [(call.result(y) - bias[:, None]) / weight[:, None], mean, rstd]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("sizes", "teams", "members"), CALLS, ids=str)
def test_teams_of_blocks(fused: bool, sizes: Sizes, teams: int, members: int) -> None:
    x = np.random.default_rng(7).standard_normal((sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    y, mean, rstd = run(fused, sizes, teams, members, x)
    rows = x.astype("float64").reshape(sizes.n, sizes.groups, -1)
    deviation = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    wanted = ((rows - rows.mean(-1, keepdims=True)) / deviation).reshape(x.shape)
    np.testing.assert_allclose(y, wanted, atol=2e-6)
    np.testing.assert_allclose(mean, rows.mean(-1), atol=1e-7)
    np.testing.assert_allclose(rstd, 1 / deviation[..., 0], rtol=1e-6)


@pytest.mark.parametrize("fused", [False, True])
def test_a_sum_that_is_not_a_number_ends_the_wait_too(fused: bool) -> None:
    sizes, teams, members = CALLS[3]
    x = np.ones((sizes.n, sizes.channels, sizes.spatial), "float32")
    x[2, 3, 4] = np.nan
    y, _, _ = run(fused, sizes, teams, members, x)
    np.testing.assert_array_equal(np.isnan(y).any((1, 2)), np.arange(sizes.n) == 2)


@pytest.mark.parametrize(
    ("sizes", "teams", "members"),
    [(Sizes(3, 4, 512, 2), 1, 1), (Sizes(3, 6, 1024, 1), 1, 2), (Sizes(5, 4, 1536, 1), 2, 3)],
    ids=str,
)
def test_gradients_by_teams_of_blocks(sizes: Sizes, teams: int, members: int) -> None:
    random = np.random.default_rng(11)
    x, dy = random.standard_normal((2, sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    weight = random.standard_normal(sizes.channels).astype("float32")
    call = Call(sizes, Options(), device=built())
    device = call.device
    rows = x.astype("float64").reshape(sizes.n, sizes.groups, -1)
    mean, rstd = device.array(rows.mean(-1)), device.array(1 / np.sqrt(rows.var(-1) + 1e-5))
    dx, dweight, dbias = call.output(), device.empty(sizes.channels), device.empty(sizes.channels)
    tensors = [call.tensor(dy), call.tensor(x), None, call.parameter(weight), None]
    named = [*tensors, mean, rstd, dx, None, dweight, dbias]
    cells = device.empty(sizes.n * sizes.groups * members * 2, "float64")
    sums = device.empty(x.size // 512 * 2)
    packed = call.packed(BACKWARD, named, 0, [])
    assert device.call("run_backward", packed, teams, members, cells, sums) == 0

    zeros = np.zeros(sizes.channels)
    x64, w64, b64 = (torch.tensor(v.astype("float64"), requires_grad=True) for v in (x, weight, zeros))
    y = torch.nn.functional.group_norm(x64, sizes.groups, w64, b64, 1e-5)
    wanted = torch.autograd.grad(y, [x64, w64, b64], torch.tensor(dy.astype("float64")))
    for ours, theirs in zip((call.result(dx), dweight, dbias), wanted, strict=True):
        scale = theirs.abs().max().item()
        np.testing.assert_allclose(ours / scale, theirs.numpy() / scale, atol=2e-6)
