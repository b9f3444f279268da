# about = "A right answer: scan of chunks, scan of their totals, then the offsets."
# section = "right"
# problem = "cumsum_long"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

constexpr int THREADS = 128;
constexpr int PER_THREAD = 4;
constexpr int CHUNK = THREADS * PER_THREAD;

__device__ float block_inclusive(float v, float* warps) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int d = 1; d < 32; d <<= 1) {
        float u = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    float before = 0.f;
    for (int w = 0; w < warp; ++w) before += warps[w];
    return before + v;
}

__global__ void scan_chunks(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ totals, int n,
                            int chunks) {
    __shared__ float warps[THREADS / 32];
    long row = (long)blockIdx.y * n;
    int first = blockIdx.x * CHUNK + threadIdx.x * PER_THREAD;
    float own[PER_THREAD];
    float sum = 0.f;
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        sum += first + k < n ? x[row + first + k] : 0.f;
        own[k] = sum;
    }
    float inclusive = block_inclusive(sum, warps);
    #pragma unroll
    for (int k = 0; k < PER_THREAD; ++k)
        if (first + k < n) y[row + first + k] = inclusive - sum + own[k];
    if (threadIdx.x == THREADS - 1) totals[blockIdx.y * chunks + blockIdx.x] = inclusive;
}

__global__ void scan_totals(float* totals, int rows, int chunks) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.f;
    for (int c = 0; c < chunks; ++c) {
        float t = totals[row * chunks + c];
        totals[row * chunks + c] = sum;
        sum += t;
    }
}

__global__ void add_offsets(float* __restrict__ y, const float* __restrict__ totals, int n, int chunks) {
    float offset = totals[blockIdx.y * chunks + blockIdx.x];
    for (int k = threadIdx.x; k < CHUNK; k += THREADS) {
        int i = blockIdx.x * CHUNK + k;
        if (i < n) y[(long)blockIdx.y * n + i] += offset;
    }
}

torch::Tensor scan(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1), chunks = (n + CHUNK - 1) / CHUNK;
    auto y = torch::empty_like(x);
    auto totals = torch::empty({rows, chunks}, x.options());
    dim3 grid(chunks, rows);
    scan_chunks<<<grid, THREADS>>>(x.data_ptr<float>(), y.data_ptr<float>(), totals.data_ptr<float>(), n, chunks);
    scan_totals<<<(rows + 31) / 32, 32>>>(totals.data_ptr<float>(), rows, chunks);
    add_offsets<<<grid, THREADS>>>(y.data_ptr<float>(), totals.data_ptr<float>(), n, chunks);
    return y;
}
"""

ext = load_inline(
    name="scan_three", cpp_sources="torch::Tensor scan(torch::Tensor x);", cuda_sources=source, functions=["scan"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scan(x.contiguous())
