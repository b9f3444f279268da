// y = alpha * a * b in float arithmetic where a is known to be mostly zeros: rows of b are added up, those that a row of a has values
// for, in the order of the depth. Every GPU's path.
//
// A block has a few rows. Of a piece of the depth after the other it lists the values that there are, and each of its threads goes
// through its columns with them; where a row has values in several pieces, y has its sums in between.
//
// A zero that meets an infinity or NaN is NaN: where b may hold one, another kernel computes everything (launch.cuh).
#pragma once

#include "plain_tile.cuh"

namespace kernelwright::matmul {

constexpr int kSparseThreads = 256;
constexpr int kSparseValues = 4096;  // of a block's rows in a piece of the depth
constexpr int kMostSparseRows = 8;
constexpr int kSparseLoads = 16;
static_assert(kSparseLoads * kSparseThreads == kSparseValues);

struct SparseRows {
    float values[kSparseValues];            // [rows][depths of a piece]
    unsigned bits[kSparseValues / 32];      // whether it is not 0
    uint16_t depths[kSparseValues];         // of each row those whose value is not 0, in order
    int counts[kMostSparseRows];
};

// Of a row of a block the depths of its values, by a warp.
__device__ __forceinline__ void list_values(SparseRows& shared, int row, int depths) {
    const int lane = threadIdx.x % 32;
    int listed = 0;
    for (int first = 0; first < depths; first += 32 * 32) {
        const int from = first + 32 * lane;
        unsigned left = from < depths ? shared.bits[(row * depths + from) / 32] : 0;
        int before = __popc(left);
        for (int lanes = 1; lanes < 32; lanes *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, before, lanes);
            if (lane >= lanes) before += other;
        }
        int at = listed + before - __popc(left);
        listed += __shfl_sync(0xffffffffu, before, 31);
        for (; left != 0; left &= left - 1) {
            shared.depths[row * depths + at++] = static_cast<uint16_t>(from + __ffs(static_cast<int>(left)) - 1);
        }
    }
    if (lane == 0) shared.counts[row] = listed;
}

// Four neighbours of a row of b or y, those that there are.
__device__ __forceinline__ float4 load_columns(const float* from, int64_t step, int there, bool by_fours) {
    if (by_fours) return __ldg(reinterpret_cast<const float4*>(from));
    float4 four = {};
    if (there > 0) four.x = __ldg(from);
    if (there > 1) four.y = __ldg(from + step);
    if (there > 2) four.z = __ldg(from + 2 * step);
    if (there > 3) four.w = __ldg(from + 3 * step);
    return four;
}

__device__ __forceinline__ void store_columns(float* y, const float4& four, int there, bool by_fours, bool adds) {
    const float of[4] = {four.x, four.y, four.z, four.w};
    if (by_fours && !adds) {
        *reinterpret_cast<float4*>(y) = four;
        return;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < there) y[i] = adds ? y[i] + of[i] : of[i];
    }
}

// `rows`: of a block, a power of two. a and b are whole.
__global__ void __launch_bounds__(kSparseThreads) matmul_sparse(const __grid_constant__ Forward args, int rows) {
    __shared__ SparseRows shared;
    if (args.c != nullptr && !isfinite(__ldg(args.c))) return;
    const int thread = threadIdx.x, piece = kSparseValues / rows;
    const int64_t blocks = ceil_div(args.m, rows), batch = blockIdx.x / blocks, first_row = blockIdx.x % blocks * rows;
    const float* a = args.a + batch * args.a_batch + first_row * args.a_row;
    const float* b = args.b + batch * args.b_batch;
    float* y = args.y + (batch * args.m + first_row) * args.n;
    const bool by_rows = args.a_row == 1 && args.a_depth != 1;
    const bool by_fours = args.b_column == 1 && args.n % 4 == 0 && args.b_depth % 4 == 0 &&
                          (reinterpret_cast<uintptr_t>(b) | reinterpret_cast<uintptr_t>(y)) % sizeof(float4) == 0;
    const auto alpha = static_cast<float>(args.alpha);
    unsigned begun = 0;  // rows that y has sums of
    for (int64_t begin = 0; begin < args.k; begin += piece) {
        float v[kSparseLoads];
        #pragma unroll
        for (int i = 0; i < kSparseLoads; ++i) {
            const int at = i * kSparseThreads + thread, row = by_rows ? at % rows : at / piece, depth = by_rows ? at / rows : at % piece;
            const bool is_one = first_row + row < args.m && begin + depth < args.k;
            v[i] = is_one ? __ldg(a + row * args.a_row + (begin + depth) * args.a_depth) : 0.0f;
        }
        for (int i = thread; i < kSparseValues / 32; i += kSparseThreads) shared.bits[i] = 0;
        bool any = false;
        #pragma unroll
        for (int i = 0; i < kSparseLoads; ++i) any |= v[i] != 0.0f;
        if (!__syncthreads_or(any)) continue;
        #pragma unroll
        for (int i = 0; i < kSparseLoads; ++i) {
            if (v[i] == 0.0f) continue;
            const int at = i * kSparseThreads + thread, own = by_rows ? at % rows * piece + at / rows : at;
            shared.values[own] = v[i];
            atomicOr(&shared.bits[own / 32], 1u << own % 32);
        }
        __syncthreads();
        if (thread / 32 < rows) list_values(shared, thread / 32, piece);
        __syncthreads();
        for (int64_t column = 4 * thread; column < args.n; column += 4 * kSparseThreads) {
            const int there = static_cast<int>(min(int64_t{4}, args.n - column));
            for (int row = 0; row < rows; ++row) {
                const int count = shared.counts[row];
                if (count == 0) continue;
                float4 sum = {};
                #pragma unroll 4
                for (int i = 0; i < count; ++i) {
                    const int depth = shared.depths[row * piece + i];
                    const float value = shared.values[row * piece + depth];
                    const float4 four = load_columns(b + (begin + depth) * args.b_depth + column * args.b_column, args.b_column, there, by_fours);
                    sum.x = fmaf(value, four.x, sum.x), sum.y = fmaf(value, four.y, sum.y);
                    sum.z = fmaf(value, four.z, sum.z), sum.w = fmaf(value, four.w, sum.w);
                }
                sum.x *= alpha, sum.y *= alpha, sum.z *= alpha, sum.w *= alpha;
                store_columns(y + row * args.n + column, sum, there, by_fours, (begun >> row & 1) != 0);
            }
        }
        for (int row = 0; row < rows; ++row) begun |= shared.counts[row] == 0 ? 0u : 1u << row;
        __syncthreads();  // all have read what was listed
    }
    for (int row = 0; row < rows && first_row + row < args.m; ++row) {
        if ((begun >> row & 1) != 0) continue;
        for (int64_t column = 4 * thread; column < args.n; column += 4 * kSparseThreads) {
            store_columns(y + row * args.n + column, {}, static_cast<int>(min(int64_t{4}, args.n - column)), by_fours, false);
        }
    }
}

inline cudaError_t multiply_sparse(const Forward& args) {
    const bool by_rows = args.a_row == 1 && args.a_depth != 1;  // neighbours in memory fill a sector; one piece is read but once
    const int rows = !by_rows ? 2 : args.k * kMostSparseRows <= kSparseValues ? kMostSparseRows : kMostSparseRows / 2;
    const int64_t blocks = args.batch * ceil_div(args.m, rows);
    if (blocks > kMostBlocks) return cudaErrorInvalidValue;
    matmul_sparse<<<static_cast<unsigned>(blocks), kSparseThreads, 0, args.stream>>>(args, rows);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul
