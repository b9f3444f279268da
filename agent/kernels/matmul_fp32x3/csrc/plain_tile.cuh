// Float arithmetic on a tile of 128 x 128 by 256 threads, for operands of any layout. Used by the portable path, and for the
// recomputed tiles of convolutions.
#pragma once

#include "../../linear_fp32x3/csrc/plain_tile.cuh"
#include "sizes.cuh"

namespace kernelwright::matmul {

using linear::kPlainThreads;
using linear::kSide;
using linear::kSlice;
using linear::Slice;

// One operand of one product, by its rows (m rows of a, n columns of b) and its depth K.
struct Plain {
    const float* values;
    int64_t rows, depth;
    int64_t row_step, depth_step;
    int64_t part;  // Part of the matrix that exists, with depths as columns

    // The tile from `first_row` on exists for depths [begin_in, end_in).
    __device__ __forceinline__ int64_t begin_in(int64_t first_row) const { return begin_of(*this, first_row); }
    __device__ __forceinline__ int64_t end_in(int64_t first_row) const { return end_of(*this, first_row + kSide - 1); }
};

// Position of a thread's four values of a slice: along rows if those are contiguous in memory, else along the depth.
struct Quarter {
    int row, depth;
    int of_row, of_depth;  // increments from a value to the next
};

__device__ __forceinline__ Quarter quarter_of(const Plain& of) {
    const int thread = threadIdx.x;
    if (of.row_step == 1 && of.depth_step != 1) return {thread % 32 * 4, thread / 32, 1, 0};
    return {thread / 2, thread % 2 * 4, 0, 1};
}

__device__ __forceinline__ void load_four(float (&four)[4], const Plain& of, int64_t row, int64_t depth, const Quarter& at) {
    const int64_t first_row = row + at.row, first_depth = depth + at.depth, step = at.of_row * of.row_step + at.of_depth * of.depth_step;
    if (of.part == kWhole && first_row + 3 * at.of_row < of.rows && first_depth + 3 * at.of_depth < of.depth) {
        const float* from = of.values + first_row * of.row_step + first_depth * of.depth_step;
        if (step == 1 && reinterpret_cast<uintptr_t>(from) % sizeof(float4) == 0) {
            const float4 all = *reinterpret_cast<const float4*>(from);
            four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
            return;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = from[i * step];
        return;
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int64_t r = first_row + at.of_row * i, d = first_depth + at.of_depth * i;
        const bool is_one = r < of.rows && d < of.depth && is_there(of.part, r, d);
        four[i] = is_one ? of.values[r * of.row_step + d * of.depth_step] : 0.0f;
    }
}

__device__ __forceinline__ void put_four(Slice& slice, const float (&four)[4], const Quarter& at) {
    #pragma unroll
    for (int i = 0; i < 4; ++i) slice.v[at.depth + at.of_depth * i][at.row + at.of_row * i] = four[i];
}

struct Slices {
    __align__(16) Slice of_a[2];
    __align__(16) Slice of_b[2];
};

// Position of a thread's 8 x 8 sums in a tile: four adjacent rows and columns, and four half a tile further.
struct Corner {
    int row, column;

    __device__ __forceinline__ Corner() : row(int(threadIdx.x) / 16 * 4), column(int(threadIdx.x) % 16 * 4) {}
    __device__ __forceinline__ static int step(int i) { return i % 4 + i / 4 * (kSide / 2); }
};

// Adds a tile's products of depths [begin, end): whole slices, or up to the operands' end. `meet` is the barrier of the 256 threads.
template <class Meet>
__device__ __forceinline__ void multiply_range(float (&sum)[8][8], Slices& slices, const Plain& a, const Plain& b, int64_t first_row,
                                               int64_t first_column, int64_t begin, int64_t end, const Meet& meet) {
    const Quarter at_a = quarter_of(a), at_b = quarter_of(b);
    const Corner at;
    int now = 0;
    float next_a[4], next_b[4];
    load_four(next_a, a, first_row, begin, at_a);
    load_four(next_b, b, first_column, begin, at_b);
    put_four(slices.of_a[0], next_a, at_a);
    put_four(slices.of_b[0], next_b, at_b);
    meet();
    for (int64_t next = begin + kSlice; next < end + kSlice; next += kSlice) {
        load_four(next_a, a, first_row, next, at_a);
        load_four(next_b, b, first_column, next, at_b);
        linear::multiply_slice(sum, slices.of_a[now], slices.of_b[now], at.row, at.column);
        now ^= 1;
        put_four(slices.of_a[now], next_a, at_a);
        put_four(slices.of_b[now], next_b, at_b);
        meet();
    }
}

// Stores the rows below `rows` of a tile of y [batch, m, n].
__device__ __forceinline__ void store_tile(const Outcome& out, const float (&sum)[8][8], int64_t m, int64_t n, int64_t part, int64_t batch,
                                           int64_t first_row, int64_t first_column, int64_t rows) {
    const Corner at;
    const bool by_fours = n % 4 == 0 && part == kWhole && reinterpret_cast<uintptr_t>(out.y) % sizeof(float4) == 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int64_t r = first_row + at.row + Corner::step(i);
        if (r >= rows) continue;
        #pragma unroll
        for (int j = 0; j < 8; j += 4) {
            const int64_t c = first_column + at.column + Corner::step(j);
            if (c >= n) continue;
            float* to = out.y + (batch * m + r) * n + c;
            if (by_fours) {
                float four[4];
                #pragma unroll
                for (int u = 0; u < 4; ++u) four[u] = finished(out, sum[i][j + u], batch, r, c + u);
                *reinterpret_cast<float4*>(to) = {four[0], four[1], four[2], four[3]};
                continue;
            }
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                if (c + u < n) to[u] = is_there(part, r, c + u) ? finished(out, sum[i][j + u], batch, r, c + u) : 0.0f;
            }
        }
    }
}

}  // namespace kernelwright::matmul
