"""The streamed path on the emulator, sm_90's instructions replaced: roles, ring, teams, sums."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from device_library import Array, Device, build_runtime
from kernels.device.group_norm_library import BACKWARD, FORWARD, Call, Options, Sizes, one_text

STAND_IN = {
    f"{name}.cuh": Path(__file__).with_name(f"{name.removesuffix('_sm90')}_stand_in.cuh")
    for name in ("bulk_sm90", "cluster_sm90", "sm90_policy")
}
FACE = """
using namespace kernelwright::group_norm;
using namespace kernelwright::group_norm::sm90;
template <class Call>
Share shared_out(const Call& call, int teams, int members, int chunk) {
    Share share = share_of(call, chunk);
    share.teams = teams, share.members = members;
    return share;
}
template <class Kernel>
void allow(Kernel kernel) {
    cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
}
extern "C" int forward_by(const Forward* f, int teams, int members, double* cells) {
    const Share share = shared_out(*f, teams, members, kSlotBytes);
    cudaMemset(cells, kUnwritten, share.rows * members * 16);
    const auto kernel = stream_forward<float>;
    allow(kernel);
    kernel<<<teams * members, kThreads, kSharedBytes>>>(*f, share, cells);
    return cudaGetLastError();
}
extern "C" int backward_by(const Backward* b, int teams, int members, double* cells, Sums* sums) {
    const Share share = shared_out(*b, teams, members, kPairBytes);
    cudaMemset(cells, kUnwritten, share.rows * members * 16);
    const auto kernel = stream_backward<float>;
    allow(kernel);
    kernel<<<teams * members, kThreads, kSharedBytes>>>(*b, share, cells, sums);
    return launch_channels<float>(*b, sums, {int(b->spatial), kPairBytes / 4, share.chunks, 2});
}
extern "C" int run_forward(const Forward* f) { return takes(*f) ? sm90::forward(*f) : cudaErrorInvalidValue; }
extern "C" int forward_bytes(const Forward* f) { return sm90::workspace(*f); }
extern "C" void share_for(long elements, long rows, int streams, int* of) {
    Forward f = {};
    f.n = rows, f.channels = f.groups = 1, f.spatial = elements;
    const Share share = share_of(f, kSlotBytes / streams);
    of[0] = share.teams, of[1] = share.members, of[2] = share.chunks;
}
"""
WHOLE = """
using namespace kernelwright::group_norm;
extern "C" int forward_by(Forward* f, long path) { return f->path = path, forward(*f); }
extern "C" int backward_by(Backward* b, long path) { return b->path = path, backward(*b); }
extern "C" int forward_bytes(const Forward* f) { return forward_workspace(*f); }
extern "C" int backward_bytes(const Backward* b) { return backward_workspace(*b); }
"""
AUTO, STREAMED, TOO_LARGE = 0, 2, 720  # of interface.h; cudaErrorCooperativeLaunchTooLarge
SLOTS, SMS = 54, 132  # of sm90_stream.cuh; of the emulator's device
CALLS = [
    (Sizes(3, 4, 1024, 2), 1, 1),  # one block: two chunks of each row
    (Sizes(3, 4, 2560, 2), 2, 2),  # two teams, rows in turn
    (Sizes(2, 8, 1500, 1), 1, 4),  # chunks that straddle channels, and a cut one
    (Sizes(5, 8, 1500, 1), 2, 4),
    (Sizes(3, 8, 1501, 1), 1, 4),  # planes that end within a pack
    (Sizes(2, 4, 27648, 1), 1, 2),  # rows that fill the ring
    (Sizes(70, 4, 512, 1), 1, 1),  # more rows than have a place, and two chunks of each
]


@cache
def built() -> Device:
    source = build_runtime().parent / "group_norm_large.cu"
    source.write_text("#define KW_DTYPES 1\n" + one_text(["sm90_launch.cuh"], STAND_IN) + FACE)
    return Device(source)


@cache
def few_sms() -> Device:
    """The whole launcher, on a device that cannot run so many blocks at once."""
    text = "#define KW_DTYPES 1\n" + one_text(["launch.cuh"], STAND_IN) + WHOLE
    blocks = "share.teams * share.members, kThreads,"
    assert text.count(blocks) == 1
    source = build_runtime().parent / "group_norm_few_sms.cu"
    source.write_text(text.replace(blocks, f"1000 * {blocks}"))
    return Device(source)


def run(sizes: Sizes, teams: int, members: int, x: Array) -> list[Array]:
    """y, mean and rstd."""
    call = Call(sizes, Options(), device=built())
    device = call.device
    weight, bias = np.linspace(0.5, 2, sizes.channels), np.linspace(-1, 1, sizes.channels)
    y = call.output()
    mean, rstd = (device.empty((sizes.n, sizes.groups)) for _ in range(2))
    named = [call.tensor(x), None, call.parameter(weight), call.parameter(bias), y, mean, rstd]
    cells = device.empty(sizes.n * sizes.groups * members * 2, "float64")
    assert device.call("forward_by", call.packed(FORWARD, named, 0, [1e-5]), teams, members, cells) == 0
    return [(call.result(y) - bias[:, None]) / weight[:, None], mean, rstd]


@pytest.mark.parametrize(("sizes", "teams", "members"), CALLS, ids=str)
def test_teams_of_blocks(sizes: Sizes, teams: int, members: int) -> None:
    x = np.random.default_rng(7).standard_normal((sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    y, mean, rstd = run(sizes, teams, members, x)
    rows = x.astype("float64").reshape(sizes.n, sizes.groups, -1)
    deviation = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    wanted = ((rows - rows.mean(-1, keepdims=True)) / deviation).reshape(x.shape)
    np.testing.assert_allclose(y, wanted, atol=2e-6)
    np.testing.assert_allclose(mean, rows.mean(-1), atol=1e-7)
    np.testing.assert_allclose(rstd, 1 / deviation[..., 0], rtol=1e-6)


def test_a_sum_that_is_not_a_number_ends_the_wait_too() -> None:
    sizes, teams, members = CALLS[3]
    x = np.ones((sizes.n, sizes.channels, sizes.spatial), "float32")
    x[2, 3, 4] = np.nan
    y, _, _ = run(sizes, teams, members, x)
    np.testing.assert_array_equal(np.isnan(y).any((1, 2)), np.arange(sizes.n) == 2)


@pytest.mark.parametrize("act", ["none", "silu", "gelu"])
@pytest.mark.parametrize(
    ("sizes", "teams", "members"),
    [
        (Sizes(3, 4, 512, 2), 1, 1),
        (Sizes(3, 6, 1024, 1), 1, 2),
        (Sizes(5, 4, 1536, 1), 2, 3),
        (Sizes(70, 4, 512, 1), 1, 2),  # more rows than have a place
        (Sizes(3, 4, 700, 2), 1, 1),  # chunks of two channels, and a cut one
        (Sizes(2, 8, 1501, 1), 2, 3),  # planes that end within a pack
    ],
    ids=str,
)
def test_gradients_by_teams_of_blocks(sizes: Sizes, teams: int, members: int, act: str) -> None:
    random = np.random.default_rng(11)
    x, dy = random.standard_normal((2, sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    weight, bias = random.standard_normal((2, sizes.channels)).astype("float32")
    call = Call(sizes, Options(act=act), device=built())
    device = call.device
    rows = x.astype("float64").reshape(sizes.n, sizes.groups, -1)
    mean, rstd = device.array(rows.mean(-1)), device.array(1 / np.sqrt(rows.var(-1) + 1e-5))
    dx, dweight, dbias = call.output(), device.empty(sizes.channels), device.empty(sizes.channels)
    tensors = [call.tensor(dy), call.tensor(x), None, call.parameter(weight), call.parameter(bias)]
    named = [*tensors, mean, rstd, dx, None, dweight, dbias]
    cells = device.empty(sizes.n * sizes.groups * members * 2, "float64")
    chunks = -(-x[0].size // sizes.groups // 512)
    sums = device.empty(sizes.n * sizes.groups * chunks * 4)
    packed = call.packed(BACKWARD, named, 0, [])
    assert device.call("backward_by", packed, teams, members, cells, sums) == 0

    x64, w64, b64 = (torch.tensor(v.astype("float64"), requires_grad=True) for v in (x, weight, bias))
    y = torch.nn.functional.group_norm(x64, sizes.groups, w64, b64, 1e-5)
    if act != "none":
        y = getattr(torch.nn.functional, act)(y)
    wanted = torch.autograd.grad(y, [x64, w64, b64], torch.tensor(dy.astype("float64")))
    for ours, theirs in zip((call.result(dx), dweight, dbias), wanted, strict=True):
        scale = theirs.abs().max().item()
        np.testing.assert_allclose(ours / scale, theirs.numpy() / scale, atol=2e-6)


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("act", ["none", "silu"])
def test_a_call_by_the_launcher(act: str, with_residual: bool) -> None:
    sizes = Sizes(2, 8, 2048, 1)
    random = np.random.default_rng(3)
    x, other = random.standard_normal((2, sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    residual = other if with_residual else None
    weight, bias = random.standard_normal((2, sizes.channels)).astype("float32")
    y, _, _ = Call(sizes, Options(act=act), device=built()).forward(x, residual, weight, bias)
    x64, w64, b64 = (torch.tensor(values.astype("float64")) for values in (x, weight, bias))
    wanted = torch.nn.functional.group_norm(x64, sizes.groups, w64, b64, 1e-5)
    if residual is not None:
        wanted = wanted + torch.tensor(residual.astype("float64"))
    if act == "silu":
        wanted = torch.nn.functional.silu(wanted)
    np.testing.assert_allclose(y, wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize("streams", [1, 2])
def test_rows_of_any_length_fit_the_rings_that_share_them(streams: int) -> None:
    random = np.random.default_rng(5)
    lengths = (2 ** random.uniform(10, 23.2, 3000)).astype(int) // 4 * 4
    shared = 0
    for length, rows in zip(lengths.tolist(), random.integers(1, 1000, 3000).tolist(), strict=True):
        of = np.zeros(3, "int32")
        built().call("share_for", ctypes.c_long(length), ctypes.c_long(rows), streams, of)
        teams, members, chunks = of.tolist()
        if teams == 0:
            continue
        shared += 1
        assert teams <= rows
        assert teams * members <= SMS
        assert 2 * members <= chunks <= members * SLOTS
    assert shared > 1000


def test_where_the_blocks_cannot_all_run_the_portable_path_takes_the_call() -> None:
    sizes = Sizes(1, 4, 120_832, 1)  # no cluster holds as much
    random = np.random.default_rng(13)
    x, dy = random.standard_normal((2, sizes.n, sizes.channels, sizes.spatial)).astype("float32")
    call = Call(sizes, Options(), device=few_sms())
    device = call.device
    y, dx = call.output(), call.output()
    mean, rstd = (device.empty((sizes.n, sizes.groups)) for _ in range(2))
    forward = [call.tensor(x), None, None, None, y, mean, rstd]
    backward = [call.tensor(dy), call.tensor(x), None, None, None, mean, rstd, dx, None, None, None]
    for name, layout, named, last in (
        ("forward", FORWARD, forward, [1e-5]),
        ("backward", BACKWARD, backward, []),
    ):
        size = device.call(f"{name}_bytes", call.packed(layout, named, 0, last))
        packed = call.packed(layout, named, device.empty(size, "uint8").ctypes.data, last)
        assert device.call(f"{name}_by", packed, ctypes.c_long(STREAMED)) == TOO_LARGE
        assert device.call(f"{name}_by", packed, ctypes.c_long(AUTO)) == 0

    x64 = torch.tensor(x.astype("float64"), requires_grad=True)
    wanted = torch.nn.functional.group_norm(x64, sizes.groups)
    (gradient,) = torch.autograd.grad(wanted, x64, torch.tensor(dy.astype("float64")))
    np.testing.assert_allclose(call.result(y), wanted.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(call.result(dx), gradient.numpy(), atol=1e-5)
