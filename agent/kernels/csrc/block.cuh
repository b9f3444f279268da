// Block-wide reductions and launch shapes. A reduction has a fixed order, and every thread gets the same result.
#pragma once

#include "element.cuh"

namespace kernelwright {

constexpr int kMaxWarps = 32;

struct Sum {
    __device__ __forceinline__ static float identity() { return 0.0f; }
    __device__ __forceinline__ static float merge(float a, float b) { return a + b; }
};

// Reduces over the block. `of_warp` is shared memory for kMaxWarps values that no other reduction of the kernel uses.
template <typename Merge>
__device__ __forceinline__ float block_reduce(float mine, float* of_warp) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        mine = Merge::merge(mine, __shfl_xor_sync(0xffffffff, mine, offset));
    }
    const int warps = int(blockDim.x) / kWarp;
    if (warps == 1) return mine;
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
    __syncthreads();
    const int lane = int(threadIdx.x) % kWarp;
    mine = lane < warps ? of_warp[lane] : Merge::identity();
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        mine = Merge::merge(mine, __shfl_xor_sync(0xffffffff, mine, offset));
    }
    return mine;
}

// Returns a block size for `count` items at up to `each` items per thread, rounded up to whole warps.
inline unsigned block_for(int64_t count, int64_t each) {
    const int64_t warps = (count + each * kWarp - 1) / (each * kWarp);
    return unsigned(std::max<int64_t>(1, std::min<int64_t>(warps, kMaxWarps)) * kWarp);
}

// Rows per block where one warp holds a row. A block per row would take longer to launch than its memory traffic takes.
constexpr unsigned kShortRows = 8;

inline dim3 rows_block(unsigned threads) { return dim3(threads, threads == kWarp ? kShortRows : 1); }

inline unsigned rows_grid(int64_t rows, dim3 block) { return unsigned((rows + block.y - 1) / block.y); }

// Returns the block index in reverse order, for backward passes: L2 may still hold what the forward accessed last.
__device__ __forceinline__ unsigned block_from_last() { return gridDim.x - 1 - blockIdx.x; }

__device__ __forceinline__ int64_t row_here() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

}  // namespace kernelwright
