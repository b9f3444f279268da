"""Scans, histograms and positions: Hillis-Steele over blocks, warp scans, matches, packed 64-bit maxima."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
constexpr int WIDTH = 128;

__global__ void scan_blocks_kernel(const float* x, float* y, float* totals, int n) {
    __shared__ float a[WIDTH], b[WIDTH];
    const int t = threadIdx.x, i = blockIdx.x * WIDTH + t;
    float *from = a, *to = b;
    from[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int step = 1; step < WIDTH; step *= 2) {
        to[t] = t >= step ? from[t] + from[t - step] : from[t];
        __syncthreads();
        float* swap = from; from = to; to = swap;
    }
    if (i < n) y[i] = from[t];
    if (t == WIDTH - 1) totals[blockIdx.x] = from[t];
}
__global__ void scan_totals_kernel(float* totals, int blocks) {
    float run = 0;
    for (int b = 0; b < blocks; b++) { const float here = totals[b]; totals[b] = run; run += here; }
}
__global__ void add_totals_kernel(float* y, const float* totals, int n) {
    const int i = blockIdx.x * WIDTH + threadIdx.x;
    if (i < n) y[i] += totals[blockIdx.x];
}
torch::Tensor cumulative_sum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int n = x.numel(), blocks = (n + WIDTH - 1) / WIDTH;
    auto totals = torch::empty({blocks}, x.options());
    scan_blocks_kernel<<<blocks, WIDTH>>>(x.data_ptr<float>(), y.data_ptr<float>(), totals.data_ptr<float>(), n);
    scan_totals_kernel<<<1, 1>>>(totals.data_ptr<float>(), blocks);
    add_totals_kernel<<<blocks, WIDTH>>>(y.data_ptr<float>(), totals.data_ptr<float>(), n);
    return y;
}

__global__ void warp_scan_kernel(const int* x, int* y, int columns) {
    int carried = 0;
    for (int start = 0; start < columns; start += 32) {
        const int c = start + threadIdx.x;
        int v = c < columns ? x[blockIdx.x * columns + c] : 0;
        const int own = v;
        for (int d = 1; d < 32; d <<= 1) {
            const int below = __shfl_up_sync(0xffffffff, v, d);
            if (threadIdx.x >= d) v += below;
        }
        if (c < columns) y[blockIdx.x * columns + c] = carried + v - own;
        carried += __shfl_sync(0xffffffff, v, 31);
    }
}
torch::Tensor exclusive_sum(torch::Tensor x) {
    auto y = torch::empty_like(x);
    warp_scan_kernel<<<x.size(0), 32>>>(x.data_ptr<int>(), y.data_ptr<int>(), x.size(1));
    return y;
}

__global__ void private_histogram_kernel(const uint8_t* x, int* counts, int n) {
    __shared__ unsigned bins[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
    __syncthreads();
    const int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&bins[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) if (bins[b]) atomicAdd(&counts[b], (int)bins[b]);
}
torch::Tensor byte_histogram(torch::Tensor x) {
    auto counts = torch::zeros({256}, x.options().dtype(torch::kInt32));
    private_histogram_kernel<<<6, 96>>>(x.data_ptr<uint8_t>(), counts.data_ptr<int>(), x.numel());
    return counts;
}

__device__ unsigned long long packed(float v, unsigned index) {
    unsigned bits = __float_as_uint(v);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;  // order of floats as unsigned
    return (unsigned long long)bits << 32 | (0xffffffffu - index);
}
__global__ void packed_argmax_kernel(const float* x, unsigned long long* best, int columns) {
    __shared__ unsigned long long mine;
    if (threadIdx.x == 0) mine = 0;
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += blockDim.x) atomicMax(&mine, packed(x[blockIdx.x * columns + c], c));
    __syncthreads();
    if (threadIdx.x == 0) best[blockIdx.x] = 0xffffffffu - (unsigned)(mine & 0xffffffffu);
}
torch::Tensor packed_argmax(torch::Tensor x) {
    auto best = torch::empty({x.size(0)}, x.options().dtype(torch::kLong));
    packed_argmax_kernel<<<x.size(0), 50>>>(x.data_ptr<float>(), (unsigned long long*)best.data_ptr<int64_t>(), x.size(1));
    return best;
}

// Lanes with the same key elect a leader that adds once for all of them.
__global__ void matched_count_kernel(const int64_t* keys, int64_t* counts, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned present = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;
    const unsigned same = __match_any_sync(present, (long long)keys[i]);
    if (__ffs(same) - 1 == threadIdx.x % 32)
        atomicAdd(reinterpret_cast<unsigned long long*>(counts + keys[i]), (unsigned long long)__popc(same));
}
torch::Tensor matched_count(torch::Tensor keys, int64_t size) {
    auto counts = torch::zeros({size}, keys.options());
    matched_count_kernel<<<(keys.numel() + 63) / 64, 64>>>(keys.data_ptr<int64_t>(), counts.data_ptr<int64_t>(), keys.numel());
    return counts;
}
"""
cpp = """
torch::Tensor cumulative_sum(torch::Tensor x);
torch::Tensor exclusive_sum(torch::Tensor x);
torch::Tensor byte_histogram(torch::Tensor x);
torch::Tensor packed_argmax(torch::Tensor x);
torch::Tensor matched_count(torch::Tensor keys, int64_t size);
"""
names = ["cumulative_sum", "exclusive_sum", "byte_histogram", "packed_argmax", "matched_count"]
ops = load_inline(name="corpus_scans", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x = torch.randn(1000, device="cuda")
    rows = torch.randint(-50, 50, (5, 70), device="cuda", dtype=torch.int32)
    data = torch.randint(0, 256, (4000,), device="cuda", dtype=torch.uint8)
    keys = torch.randint(0, 9, (333,), device="cuda")
    grid = x.view(10, 100)
    return {
        "cumulative_sum": (ops.cumulative_sum(x), x.double().cumsum(0).float()),
        "exclusive_sum": (ops.exclusive_sum(rows), rows.cumsum(1).int() - rows),
        "byte_histogram": (ops.byte_histogram(data), torch.bincount(data, minlength=256).int()),
        "packed_argmax": (ops.packed_argmax(grid), grid.argmax(1)),
        "matched_count": (ops.matched_count(keys, 9), torch.bincount(keys, minlength=9)),
    }
