// Float arithmetic on a tile of 128 x 128 by 256 threads, from slices of 8 of K stored transposed in shared memory.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

constexpr int kSide = 128;
constexpr int kSlice = 8;
constexpr int kPlainThreads = 256;
constexpr int kPitch = kSide + 4;  // the two threads of a row store to different banks

struct Slice {
    float v[kSlice][kPitch];
};

__device__ __forceinline__ void put(Slice& slice, int row, int depth, const float4& four) {
    slice.v[depth][row] = four.x;
    slice.v[depth + 1][row] = four.y;
    slice.v[depth + 2][row] = four.z;
    slice.v[depth + 3][row] = four.w;
}

// Loads the eight values of a thread: four from `at`, four from half a tile further.
__device__ __forceinline__ void eight_of(float (&eight)[8], const float* row, int at) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + kSide / 2 + at);
    eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w;
    eight[4] = high.x, eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
}

__device__ __forceinline__ void multiply_slice(float (&sum)[8][8], const Slice& x, const Slice& weight, int row,
                                               int column) {
    #pragma unroll
    for (int depth = 0; depth < kSlice; ++depth) {
        float of_x[8];
        float of_weight[8];
        eight_of(of_x, x.v[depth], row);
        eight_of(of_weight, weight.v[depth], column);
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            #pragma unroll
            for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(of_x[i], of_weight[j], sum[i][j]);
        }
    }
}

}  // namespace kernelwright::linear
