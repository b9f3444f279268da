"""The clustered path on the emulator, from the PTX that nvcc makes of it, shared out as its launcher does."""

import ctypes
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from device_library import Array, build_runtime
from kernels.device.group_norm_library import BACKWARD, CSRC, FORWARD, Call, Options, Sizes
from ptx_library import NVCC, PtxDevice, from_cuda

pytestmark = pytest.mark.skipif(NVCC is None, reason="needs nvcc")

FACE = """
#define KW_DTYPES 3
#include "sm90_cluster_launch.cuh"
using namespace kernelwright::group_norm;
using namespace kernelwright::group_norm::sm90;
constexpr int kOfBlock = 96;
template <class Call, class Share>
int64_t shared_out(const Call& call, int blocks, Share* share) {
    const bool takes_samples = call.n * blocks <= kMaxBlocks;
    *share = blocks == 0 ? cluster_share(call) : share_out(call, {blocks, kOfBlock, takes_samples});
    return shares_out(*share) ? shared_bytes(*share) : 0;
}
extern "C" int64_t forward_share(const Forward* f, int blocks, ForwardShare* share) {
    return shared_out(*f, blocks, share);
}
extern "C" int64_t backward_share(const Backward* b, int blocks, BackwardShare* share) {
    return shared_out(*b, blocks, share);
}
// So that the kernels are made.
cudaError_t launched(const Forward& f) { return cluster_forward(f); }
cudaError_t launched(const Backward& b) { return cluster_backward(b); }
"""
THREADS, ROOM = 96, 224 * 1024  # of a block above; bytes of shared memory that one may ask for
KINDS = {"float32": "If", "float16": "I6__half"}
EPSILON = {"float32": 2e-6, "float16": 1e-3}
ROW_UNITS, PIECES, SAMPLES, ADDS_UP = 2, 5, 15, 16  # of a BackwardShare, in words of four bytes
CALLS = [
    (Sizes(2, 8, 64, 2), 2),
    (Sizes(1, 10, 400, 2), 4),
    (Sizes(2, 8, 1024, 2), 8),
    (Sizes(3, 4, 200, 1), 3),
    (Sizes(1, 2, 2560, 1), 1),  # more than one run of sums
]


class Shared(NamedTuple):
    """How a call is shared out: its kernel's struct, blocks of a row, rows of a cluster, bytes of a block."""

    struct: bytes
    blocks: int
    samples: int
    shared_bytes: int


class Clusters(PtxDevice):
    """The kernels of the clustered path, and its launcher's arithmetic."""

    def __init__(self) -> None:
        source = self.scratch("group_norm_clusters.cu", FACE)
        super().__init__(source, from_cuda(source, [CSRC], "sm_90a"), checked=True)
        made = build_runtime().parent / "group_norm_clusters_host.so"
        command = [str(NVCC), "-std=c++17", "-arch=sm_90a", "-shared", "-Xcompiler", "-fPIC", f"-I{CSRC}"]
        subprocess.run([*command, str(source), "-o", str(made)], check=True, timeout=240)
        self.host = ctypes.CDLL(str(made))

    def shared(self, direction: str, packed: Any, blocks: int = 0) -> Shared:
        """Over `blocks`, or as many as the launcher takes; none where it leaves the call to another path."""
        size = self.kernel(f"cluster_{direction}{KINDS['float32']}").parameter_bytes[1]
        struct = (ctypes.c_int * (size // 4))()
        needed = getattr(self.host, f"{direction}_share")(packed, blocks, struct)
        samples = struct[SAMPLES] if direction == "backward" else 1
        return Shared(bytes(struct), struct[0] if needed else 0, samples, needed)

    def run(self, direction: str, call: Call, packed: Any, blocks: int, *rest: Array) -> Shared:
        shared = self.shared(direction, packed, blocks)
        assert shared.blocks == blocks
        self.cluster = (blocks * shared.samples, 1, 1)
        grid = call.sizes.n * call.sizes.groups * blocks
        self.runtime.kw_clear_findings()
        name = f"cluster_{direction}{KINDS[call.options.dtype]}"
        arguments = (packed.raw[: FORWARD.size if direction == "forward" else BACKWARD.size], shared.struct)
        self.launch_with(name, ((grid, 1, 1), (THREADS, 1, 1), shared.shared_bytes), *arguments, *rest)
        assert self.findings() == []
        self.cluster = (0, 0, 0)
        return shared


@cache
def built() -> Clusters:
    return Clusters()


class Case:
    """Inputs, rounded to their dtype, the call with them, and torch's results in float64."""

    def __init__(
        self, sizes: Sizes, options: Options, blocks: int, with_residual: bool = False, offset: int = 0
    ) -> None:
        random = np.random.default_rng(sum(sizes))
        shape = (sizes.n, sizes.channels, sizes.spatial)
        self.call, self.blocks = Call(sizes, options, offset, built()), blocks
        self.x, self.dy = random.standard_normal((2, *shape)).astype(options.dtype)
        self.residual = random.standard_normal(shape).astype(options.dtype) if with_residual else None
        self.weight, self.bias = random.standard_normal((2, sizes.channels)).astype(options.dtype)

    def forward(self) -> list[Array]:
        """y, mean and rstd."""
        call, device = self.call, self.call.device
        of_rows = (call.sizes.n, call.sizes.groups)
        y, mean, rstd = call.output(), device.empty(of_rows), device.empty(of_rows)
        parameters = [call.parameter(self.weight), call.parameter(self.bias)]
        named = [call.tensor(self.x), call.tensor(self.residual), *parameters, y, mean, rstd]
        built().run("forward", call, call.packed(FORWARD, named, 0, [1e-5]), self.blocks)
        return [call.result(y), mean, rstd]

    def backward(self, mean: Array, rstd: Array) -> list[Array]:
        """dx, dresidual, dweight and dbias."""
        call, device = self.call, self.call.device
        dx, dresidual = call.output(), call.output()
        dweight, dbias = (device.empty(call.sizes.channels, call.options.dtype) for _ in range(2))
        tensors = [call.tensor(values) for values in (self.dy, self.x, self.residual)]
        parameters = [call.parameter(self.weight), call.parameter(self.bias)]
        packed = call.packed(
            BACKWARD, [*tensors, *parameters, mean, rstd, dx, dresidual, dweight, dbias], 0, []
        )
        sums = device.empty((self.x.size, 2))
        struct = np.frombuffer(built().run("backward", call, packed, self.blocks, sums).struct, "int32")
        if not struct[ADDS_UP]:
            self.channel_gradients(packed, sums, struct)
        return [call.result(dx), call.result(dresidual), dweight.astype("float64"), dbias.astype("float64")]

    def channel_gradients(self, packed: Any, sums: Array, share: Array) -> None:
        """What follows where no cluster has a group of all samples."""
        name, sizes = f"channel_gradients{KINDS[self.call.options.dtype]}", self.call.sizes
        pieces = share[PIECES]
        parts = np.array([pieces, 1, share[ROW_UNITS], 1, pieces, sizes.channels // sizes.groups], "int32")
        team = 2
        while team < min(sizes.n * pieces, 256):
            team *= 2
        blocks = -(-sizes.channels // (256 // team))
        built().launch(name, blocks, 256, packed.raw[: BACKWARD.size], sums, parts.tobytes(), np.int32(team))

    def expected(self) -> tuple[Array, Sequence[Array]]:
        """y, and the gradients of x, residual, weight and bias."""
        residual = np.zeros_like(self.x) if self.residual is None else self.residual
        given = (self.x, residual, self.weight, self.bias)
        x, added, weight, bias = (torch.tensor(v.astype("float64"), requires_grad=True) for v in given)
        z = torch.nn.functional.group_norm(x, self.call.sizes.groups, weight, bias, 1e-5) + added
        act = self.call.options.act
        y = z if act == "none" else getattr(torch.nn.functional, act)(z)
        gradients = torch.autograd.grad(y, [x, added, weight, bias], torch.tensor(self.dy.astype("float64")))
        return y.detach().numpy(), [gradient.numpy() for gradient in gradients]

    def check(self) -> None:
        y, mean, rstd = self.forward()
        wanted, gradients = self.expected()
        rows = self.x.astype("float64").reshape(*mean.shape, -1)
        np.testing.assert_allclose(mean, rows.mean(-1), atol=1e-6)
        np.testing.assert_allclose(rstd, 1 / np.sqrt(rows.var(-1) + 1e-5), rtol=1e-6)
        for ours, theirs in zip([y, *self.backward(mean, rstd)], [wanted, *gradients], strict=True):
            scale = max(1.0, np.abs(theirs).max())
            np.testing.assert_allclose(ours / scale, theirs / scale, atol=EPSILON[self.call.options.dtype])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("sizes", "blocks"), CALLS, ids=str)
def test_clusters_of_blocks(sizes: Sizes, blocks: int, dtype: str) -> None:
    Case(sizes, Options(dtype), blocks).check()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("act", ["silu", "gelu"])
@pytest.mark.parametrize("with_residual", [False, True])
def test_activations(with_residual: bool, act: str, dtype: str) -> None:
    Case(CALLS[1][0], Options(dtype, act=act), 2, with_residual).check()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        (Sizes(2, 8, 401, 1), 2),  # rows that end with a pack, planes that do not
        (Sizes(3, 4, 333, 2), 1),  # rows that begin anywhere
        (Sizes(2, 6, 1001, 2), 4),
        (Sizes(2, 8, 49, 2), 3),
        (Sizes(2, 16, 77, 1), 2),
    ],
    ids=str,
)
def test_planes_and_rows_that_end_within_a_pack(sizes: Sizes, blocks: int, offset: int, dtype: str) -> None:
    Case(sizes, Options(dtype, act="silu"), blocks, with_residual=True, offset=offset).check()


def test_an_offset_costs_no_digits() -> None:
    case = Case(CALLS[2][0], Options(), 8)
    case.x += 1000
    y, _, _ = case.forward()
    np.testing.assert_allclose(y, case.expected()[0], atol=2e-6)


def test_not_a_number_stays_in_its_group() -> None:
    case = Case(CALLS[0][0], Options(), 2)
    case.x[1, 5, 3] = np.nan
    y, _, _ = case.forward()
    np.testing.assert_array_equal(np.isnan(y).all(-1), [[False] * 8, [False] * 4 + [True] * 4])
    assert not np.isnan(y[0]).any()


@pytest.mark.parametrize(
    ("sizes", "forward", "backward"),
    [
        (Sizes(2, 640, 4096, 32), 2, 5),  # of x a pair of SMs holds a group
        (Sizes(2, 320, 16384, 32), 2, 6),
        (Sizes(16, 320, 4096, 32), 1, 2),
        (Sizes(1, 128, 82944, 32), 6, 8),
        (Sizes(1, 128, 262144, 32), 0, 0),  # too large for a cluster
        (Sizes(32, 1024, 49, 32), 1, 1),
        (Sizes(32, 256, 49, 32), 0, 1),  # rows below 1 KB
    ],
    ids=str,
)
def test_as_few_blocks_as_fill_a_gpu_take_a_group(sizes: Sizes, forward: int, backward: int) -> None:
    call, device = Call(sizes, Options("float16"), device=built()), built()
    of_forward = device.shared("forward", call.packed(FORWARD, [None] * 7, 0, [1e-5]))
    of_backward = device.shared("backward", call.packed(BACKWARD, [None] * 11, 0, []))
    assert (of_forward.blocks, of_backward.blocks) == (forward, backward)


@pytest.mark.parametrize(
    ("sizes", "blocks", "samples"),
    [
        (Sizes(2, 2560, 256, 32), 6, 2),  # three blocks to an SM
        (Sizes(5, 30, 323, 15), 1, 5),
        (Sizes(8, 64, 1024, 8), 2, 8),  # the widest cluster, a block to an SM
        (Sizes(1, 512, 4096, 32), 8, 1),
        (Sizes(2, 640, 4096, 32), 5, 1),  # blocks too large to stand anywhere
        (Sizes(13, 64, 1024, 8), 2, 1),  # more samples than a cluster has blocks
        (Sizes(4, 512, 15999, 512), 1, 1),  # more than one wave
    ],
    ids=str,
)
def test_a_cluster_takes_a_group_in_all_samples_where_it_has_room(
    sizes: Sizes, blocks: int, samples: int
) -> None:
    call, device = Call(sizes, Options("float16"), device=built()), built()
    wanted = device.empty(sizes.channels)
    packed = call.packed(BACKWARD, [*[None] * 9, wanted, wanted], 0, [])
    shared = device.shared("backward", packed)
    assert (shared.blocks, shared.samples) == (blocks, samples)
    adds_up = np.frombuffer(shared.struct, "int32")[ADDS_UP]
    assert adds_up == (samples == sizes.n)


def test_what_the_launcher_shares_out_fits() -> None:
    random = np.random.default_rng(5)
    device, taken = built(), {"forward": 0, "backward": 0}
    for _ in range(3000):
        n, groups = random.integers(1, 40, 2).tolist()
        channels, spatial = groups * int(2 ** random.uniform(0, 8)), int(2 ** random.uniform(3, 18)) // 4 * 4
        call = Call(Sizes(n, channels, spatial, groups), Options(), device=device)
        for direction, layout, names, last in (
            ("forward", FORWARD, 7, [1e-5]),
            ("backward", BACKWARD, 11, []),
        ):
            shared = device.shared(direction, call.packed(layout, [None] * names, 0, last))
            if shared.blocks == 0:
                continue
            taken[direction] += 1
            assert shared.blocks <= 8
            assert shared.shared_bytes <= ROOM
    assert min(taken.values()) > 1000
