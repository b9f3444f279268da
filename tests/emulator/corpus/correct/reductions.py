"""Sums and maxima: tree, shuffles, atomics, two stages, cooperative groups, cub, integer warp reductions."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
namespace cg = cooperative_groups;

__global__ void tree_sum_kernel(const float* x, float* y, int columns) {
    extern __shared__ float partial[];
    float s = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) s += x[blockIdx.x * columns + c];
    partial[threadIdx.x] = s;
    __syncthreads();
    for (int step = blockDim.x >> 1; step; step >>= 1) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (!threadIdx.x) y[blockIdx.x] = partial[0];
}
torch::Tensor tree_sum(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    tree_sum_kernel<<<x.size(0), 128, 128 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

__global__ void shuffle_variance_kernel(const float* x, float* y, int rows, int columns) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;  // whole warps only
    const float* r = x + row * columns;
    float s = 0, q = 0;
    for (int c = lane; c < columns; c += 32) { s += r[c]; }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    const float mean = s / columns;
    for (int c = lane; c < columns; c += 32) q += (r[c] - mean) * (r[c] - mean);
    for (int o = 16; o; o >>= 1) q += __shfl_down_sync(0xffffffffu, q, o);
    if (lane == 0) y[row] = q / (columns - 1);
}
torch::Tensor shuffle_variance(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    shuffle_variance_kernel<<<(x.size(0) + 3) / 4, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}

__global__ void atomic_absmax_kernel(const float* x, unsigned* bits, int n) {
    unsigned best = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        best = max(best, __float_as_uint(fabsf(x[i])));
    atomicMax(bits, best);  // positive floats order as their bits
}
torch::Tensor atomic_absmax(torch::Tensor x) {
    auto y = torch::zeros({1}, x.options());
    atomic_absmax_kernel<<<5, 64>>>(x.data_ptr<float>(), reinterpret_cast<unsigned*>(y.data_ptr<float>()), x.numel());
    return y;
}

template <typename T, int BLOCK>
__global__ void stage_one_kernel(const T* x, T* partial, int n) {
    __shared__ T s[BLOCK / 32];
    T v = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += BLOCK * gridDim.x) v += x[i] * x[i];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        T total = 0;
        for (T part : s) total += part;
        partial[blockIdx.x] = total;
    }
}
template <typename T>
__global__ void stage_two_kernel(const T* partial, T* y, int blocks) {
    T v = threadIdx.x < blocks ? partial[threadIdx.x] : T(0);
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) *y = sqrt(v);
}
torch::Tensor two_stage_norm(torch::Tensor x) {
    auto partial = torch::empty({7}, x.options()), y = torch::empty({}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "two_stage_norm", ([&] {
        stage_one_kernel<scalar_t, 96><<<7, 96>>>(x.data_ptr<scalar_t>(), partial.data_ptr<scalar_t>(), x.numel());
        stage_two_kernel<scalar_t><<<1, 32>>>(partial.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), 7);
    }));
    return y;
}

__global__ void groups_dot_kernel(const float* a, const float* b, float* y, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    float s = 0;
    for (int i = block.group_index().x * block.size() + block.thread_rank(); i < n; i += gridDim.x * block.size()) s += a[i] * b[i];
    s = cg::reduce(tile, s, cg::plus<float>());
    if (tile.thread_rank() == 0) atomicAdd(y, s);
}
torch::Tensor groups_dot(torch::Tensor a, torch::Tensor b) {
    auto y = torch::zeros({}, a.options());
    groups_dot_kernel<<<4, 80>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), a.numel());
    return y;
}

__global__ void cub_mean_kernel(const float* x, float* y, int columns) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ typename Reduce::TempStorage storage;
    float s = 0;
    for (int c = threadIdx.x; c < columns; c += 64) s += x[blockIdx.x * columns + c];
    const float total = Reduce(storage).Sum(s);
    if (threadIdx.x == 0) y[blockIdx.x] = total / columns;
}
torch::Tensor cub_mean(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    cub_mean_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

__global__ void warp_int_extrema_kernel(const int* x, int* low, int* high, int columns) {
    int least = INT_MAX, most = INT_MIN;
    for (int c = threadIdx.x; c < columns; c += warpSize) {
        least = min(least, x[blockIdx.x * columns + c]);
        most = max(most, x[blockIdx.x * columns + c]);
    }
    least = __reduce_min_sync(0xffffffff, least);
    most = __reduce_max_sync(0xffffffff, most);
    if (threadIdx.x == 0) { low[blockIdx.x] = least; high[blockIdx.x] = most; }
}
std::vector<torch::Tensor> warp_int_extrema(torch::Tensor x) {
    auto low = torch::empty({x.size(0)}, x.options()), high = torch::empty({x.size(0)}, x.options());
    warp_int_extrema_kernel<<<x.size(0), 32>>>(x.data_ptr<int>(), low.data_ptr<int>(), high.data_ptr<int>(), x.size(1));
    return {low, high};
}
"""
cpp = """
torch::Tensor tree_sum(torch::Tensor x);
torch::Tensor shuffle_variance(torch::Tensor x);
torch::Tensor atomic_absmax(torch::Tensor x);
torch::Tensor two_stage_norm(torch::Tensor x);
torch::Tensor groups_dot(torch::Tensor a, torch::Tensor b);
torch::Tensor cub_mean(torch::Tensor x);
std::vector<torch::Tensor> warp_int_extrema(torch::Tensor x);
"""
names = [
    "tree_sum",
    "shuffle_variance",
    "atomic_absmax",
    "two_stage_norm",
    "groups_dot",
    "cub_mean",
    "warp_int_extrema",
]
ops = load_inline(name="corpus_reductions", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x, other = torch.randn(13, 301, device="cuda"), torch.randn(13, 301, device="cuda")
    whole = torch.randint(-9999, 9999, (6, 75), device="cuda", dtype=torch.int32)
    low, high = ops.warp_int_extrema(whole)
    return {
        "tree_sum": (ops.tree_sum(x), x.sum(1)),
        "shuffle_variance": (ops.shuffle_variance(x), x.var(1)),
        "atomic_absmax": (ops.atomic_absmax(x), x.abs().max().view(1)),
        "two_stage_norm": (ops.two_stage_norm(x), x.norm()),
        "two_stage_norm_double": (ops.two_stage_norm(x.double()), x.double().norm()),
        "groups_dot": (ops.groups_dot(x, other), (x * other).sum()),
        "cub_mean": (ops.cub_mean(x), x.mean(1)),
        "warp_int_extrema_low": (low, whole.min(1).values),
        "warp_int_extrema_high": (high, whole.max(1).values),
    }
