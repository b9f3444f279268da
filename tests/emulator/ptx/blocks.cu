// Blocks through nvcc: shared memory of every kind, barriers, warps, atomics, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

template <int Tile>
__global__ void transpose_tiles(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[Tile][Tile + 1];
    int x = blockIdx.x * Tile + threadIdx.x, y = blockIdx.y * Tile + threadIdx.y;
    if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    int tx = blockIdx.y * Tile + threadIdx.x, ty = blockIdx.x * Tile + threadIdx.y;
    if (tx < rows && ty < columns) out[ty * rows + tx] = tile[threadIdx.x][threadIdx.y];
}
template __global__ void transpose_tiles<16>(const float*, float*, int, int);

__global__ void tiled_product(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[16][16], right[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < k; t += 16) {
        left[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
        right[threadIdx.y][threadIdx.x] = column < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

struct Online {
    float top, sum;
};
__device__ __noinline__ Online joined(Online a, Online b) {
    Online r;
    r.top = fmaxf(a.top, b.top);
    r.sum = a.sum * expf(a.top - r.top) + b.sum * expf(b.top - r.top);
    return r;
}
__global__ void online_softmax(const float* x, float* y, int n) {
    extern __shared__ Online states[];
    Online mine = {-INFINITY, 0.0f};
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        Online one = {x[blockIdx.x * n + i], 1.0f};
        mine = mine.sum == 0.0f ? one : joined(mine, one);
    }
    states[threadIdx.x] = mine;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) states[threadIdx.x] = joined(states[threadIdx.x], states[threadIdx.x + step]);
        __syncthreads();
    }
    Online all = states[0];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = expf(x[blockIdx.x * n + i] - all.top) / all.sum;
}

__global__ void warp_scan(const int* x, int* inclusive, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    int v = i < n ? x[i] : 0;
    for (int o = 1; o < 32; o <<= 1) {
        int other = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o) v += other;
    }
    if (i < n) inclusive[i] = v;
}

__global__ void grouped(const float* x, float* sums, int* positives, int n) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    float total = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) sums[i / 16] = total;
    if (i < n && v > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(positives, static_cast<int>(active.size()));
    }
    block.sync();
}

__device__ float lock_free_max(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int old = *bits, seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= value) break;
        old = atomicCAS(bits, seen, __float_as_int(value));
    } while (old != seen);
    return __int_as_float(old);
}
__device__ unsigned int arrivals;
__global__ void last_block_sums(const float* x, float* parts, float* result, int n) {
    __shared__ float local;
    __shared__ bool last;
    if (threadIdx.x == 0) local = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&local, x[i]);
        lock_free_max(result + 1, x[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = local;
        __threadfence();
        last = atomicInc(&arrivals, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++) sum += static_cast<volatile float*>(parts)[b];
        result[0] = sum;
    }
}

__global__ void staged(const float4* x, float4* y, int n) {
    __shared__ float4 stage[2][64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &x[t], sizeof(float4));
    __pipeline_commit();
    for (int k = 0; k < n; k++) {
        if (k + 1 < n) __pipeline_memcpy_async(&stage[(k + 1) & 1][t], &x[(k + 1) * 64 + t], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[k & 1][63 - t];
        y[k * 64 + t] = make_float4(v.w, v.z, v.y, v.x);
        __syncthreads();
    }
}
