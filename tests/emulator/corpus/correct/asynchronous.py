"""Copies that overlap with work: pipelines, cuda::barrier, cooperative groups, and barriers of the whole grid."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

// Two stages; the tail of the last tile is filled with zeros.
__global__ void double_buffered_sum_kernel(const float* x, float* y, int columns) {
    __shared__ alignas(16) float tile[2][128];
    const float* row = x + blockIdx.x * columns;
    const int tiles = (columns + 127) / 128, t = threadIdx.x;
    auto fetch = [&](int k) {
        if (k < tiles) {
            const int left = columns - k * 128 - t * 4;
            const int absent = left >= 4 ? 0 : left <= 0 ? 4 : 4 - left;
            __pipeline_memcpy_async(&tile[k % 2][t * 4], row + (absent == 4 ? 0 : k * 128 + t * 4), 16, absent * 4);
        }
        __pipeline_commit();
    };
    float s = 0;
    fetch(0);
    for (int k = 0; k < tiles; k++) {
        fetch(k + 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 4; i++) s += tile[k % 2][t + 32 * i];
        __syncthreads();
    }
    for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(~0u, s, d);
    if (t == 0) y[blockIdx.x] = s;
}
torch::Tensor double_buffered_sum(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    double_buffered_sum_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}

__global__ void pipeline_scale_kernel(const float* x, float* y, int n, float factor) {
    __shared__ float stage[3][64];
    auto pipe = cuda::make_pipeline();
    const int step = gridDim.x * 64;
    int fetched = blockIdx.x * 64 + threadIdx.x, k = 0;
    for (int ahead = 0; ahead < 2; ahead++, fetched += step) {
        pipe.producer_acquire();
        if (fetched < n) cuda::memcpy_async(&stage[ahead][threadIdx.x], x + fetched, sizeof(float), pipe);
        pipe.producer_commit();
    }
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += step, fetched += step, k++) {
        pipe.producer_acquire();
        if (fetched < n) {
            cuda::memcpy_async(&stage[(k + 2) % 3][threadIdx.x], x + fetched, cuda::aligned_size_t<4>(4), pipe);
        }
        pipe.producer_commit();
        pipe.consumer_wait();
        y[i] = factor * stage[k % 3][threadIdx.x];
        pipe.consumer_release();
    }
}
torch::Tensor pipeline_scale(torch::Tensor x, double factor) {
    auto y = torch::empty_like(x);
    pipeline_scale_kernel<<<3, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), factor);
    return y;
}

// All threads of the block fetch a row and reverse it.
__global__ void block_pipeline_reverse_kernel(const float* x, float* y, int rows, int columns) {
    extern __shared__ __align__(16) float buffer[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    auto fetch = [&](int row, int stage) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, buffer + stage * columns, x + row * columns, sizeof(float) * columns, pipe);
        pipe.producer_commit();
    };
    int stage = 0;
    if (blockIdx.x < rows) fetch(blockIdx.x, 0);
    for (int row = blockIdx.x; row < rows; row += gridDim.x, stage ^= 1) {
        if (row + gridDim.x < rows) fetch(row + gridDim.x, stage ^ 1);
        pipe.consumer_wait();
        for (int c = threadIdx.x; c < columns; c += blockDim.x) {
            y[row * columns + c] = buffer[stage * columns + columns - 1 - c];
        }
        pipe.consumer_release();
    }
}
torch::Tensor block_pipeline_reverse(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int columns = x.size(1);
    block_pipeline_reverse_kernel<<<3, 48, 2 * columns * sizeof(float)>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), columns);
    return y;
}

__global__ void barrier_transpose_kernel(const float* x, float* y, int n) {
    __shared__ float tile[16][17];
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    if (threadIdx.x == 0 && threadIdx.y == 0) init(&arrived, blockDim.x * blockDim.y);
    __syncthreads();
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row < n && column < n) {
        cuda::memcpy_async(&tile[threadIdx.y][threadIdx.x], &x[row * n + column], sizeof(float), arrived);
    }
    auto token = arrived.arrive();
    arrived.wait(std::move(token));
    const int to_row = blockIdx.x * 16 + threadIdx.y, to_column = blockIdx.y * 16 + threadIdx.x;
    if (to_row < n && to_column < n) y[to_row * n + to_column] = tile[threadIdx.x][threadIdx.y];
}
torch::Tensor barrier_transpose(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int n = x.size(0), blocks = (n + 15) / 16;
    barrier_transpose_kernel<<<dim3(blocks, blocks), dim3(16, 16)>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

// Rows by tiles of 16 lanes: fetched by the block, scanned and summed by the tile.
__global__ void group_copy_softmax_kernel(const float* x, float* y, float* running, int columns) {
    extern __shared__ float rows[];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    const int first = blockIdx.x * 4;
    cg::memcpy_async(block, rows, x + first * columns, sizeof(float) * 4 * columns);
    cg::wait(block);
    const float* row = rows + tile.meta_group_rank() * columns;
    float m = -INFINITY, z = 0, before = 0;
    for (int c = tile.thread_rank(); c < columns; c += 16) m = fmaxf(m, row[c]);
    m = cg::reduce(tile, m, cg::greater<float>());
    for (int c = tile.thread_rank(); c < columns; c += 16) z += expf(row[c] - m);
    z = cg::reduce(tile, z, cg::plus<float>());
    const int at = (first + tile.meta_group_rank()) * columns;
    for (int base = 0; base < columns; base += 16) {
        const int c = base + tile.thread_rank();
        const float p = c < columns ? expf(row[c] - m) / z : 0.f;
        const float sum = before + cg::inclusive_scan(tile, p, cg::plus<float>());
        if (c < columns) { y[at + c] = p; running[at + c] = sum; }
        before = tile.shfl(sum, 15);
    }
}
std::vector<torch::Tensor> group_copy_softmax(torch::Tensor x) {
    auto y = torch::empty_like(x), running = torch::empty_like(x);
    const int columns = x.size(1);
    group_copy_softmax_kernel<<<x.size(0) / 4, 64, 4 * columns * sizeof(float)>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), running.data_ptr<float>(), columns);
    return {y, running};
}

// Lanes with a positive element append together: one atomic for each group of coalesced threads.
__global__ void count_positive_kernel(const float* x, int* count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        auto active = cg::coalesced_threads();
        const int total = cg::reduce(active, 1, cg::plus<int>());
        if (active.thread_rank() == 0) atomicAdd(count, total);
    }
}
torch::Tensor count_positive(torch::Tensor x) {
    auto count = torch::zeros({1}, x.options().dtype(torch::kInt32));
    count_positive_kernel<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), count.data_ptr<int>(), x.numel());
    return count;
}

template <int Threads>
__global__ void grid_normalise_kernel(const float* x, float* y, float* partial, int n) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float s[Threads];
    float sum = 0;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < Threads; t++) sum += s[t];
        partial[blockIdx.x] = sum;
    }
    grid.sync();
    float total = 0;
    for (int b = 0; b < gridDim.x; b++) total += partial[b];
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] / total;
    grid.sync();
    if (grid.thread_rank() == 0) y[0] = total;
}
torch::Tensor grid_normalise(torch::Tensor x) {
    auto y = torch::empty_like(x), partial = torch::empty({7}, x.options());
    const float* in = x.data_ptr<float>();
    float *out = y.data_ptr<float>(), *sums = partial.data_ptr<float>();
    int n = x.numel();
    void* arguments[] = {&in, &out, &sums, &n};
    const cudaError_t error = cudaLaunchCooperativeKernel(
        (void*)grid_normalise_kernel<64>, dim3(7), dim3(64), arguments, 0, nullptr);
    TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
    return y;
}
"""

cpp = """
torch::Tensor double_buffered_sum(torch::Tensor x);
torch::Tensor pipeline_scale(torch::Tensor x, double factor);
torch::Tensor block_pipeline_reverse(torch::Tensor x);
torch::Tensor barrier_transpose(torch::Tensor x);
std::vector<torch::Tensor> group_copy_softmax(torch::Tensor x);
torch::Tensor count_positive(torch::Tensor x);
torch::Tensor grid_normalise(torch::Tensor x);
"""
names = [line.split("(")[0].split()[-1] for line in cpp.strip().splitlines()]
ext = load_inline(name="corpus_asynchronous", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    rows, square = torch.randn(6, 500, device="cuda"), torch.randn(37, 37, device="cuda")
    flat = torch.randn(1111, device="cuda")
    normalised = flat / flat.sum()
    normalised[0] = flat.sum()
    softmax, running = ext.group_copy_softmax(rows[:4, :100].contiguous())
    expected = rows[:4, :100].softmax(1)
    return {
        "double_buffered_sum": (ext.double_buffered_sum(rows), rows.sum(1)),
        "pipeline_scale": (ext.pipeline_scale(flat, 1.5), 1.5 * flat),
        "block_pipeline_reverse": (ext.block_pipeline_reverse(rows), rows.flip(1)),
        "barrier_transpose": (ext.barrier_transpose(square), square.t().contiguous()),
        "group_copy_softmax": (softmax, expected),
        "group_copy_scan": (running, expected.cumsum(1)),
        "count_positive": (ext.count_positive(flat), (flat > 0).sum().int().view(1)),
        "grid_normalise": (ext.grid_normalise(flat), normalised),
    }
