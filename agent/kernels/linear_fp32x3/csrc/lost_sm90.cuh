// What two fp16 lose of small values, and sums that are computed anew in float arithmetic where it shows.
//
// Values that share a scale are split on a grid of 2^-24, where the largest of them is 2^13 to 2^14: one below 2^-2, 2^-16 of the
// largest, keeps fewer than 22 bits. Beside what the larger ones give that is nothing, unless they meet zeros of the other
// operand. What a sum can have lost is known. A small value goes up or down on the grid as drawn, as likely as it is near: what is
// lost has no preferred sign, and 2^-25 in the root mean square at most, times the other operand's value, 2^14 at most. n small
// values lose 2^-11 * sqrt(n). So whoever splits counts them, and a row's sums in a tile whose size, in the root of their squares'
// mean, is not 2^26.5 times what they may have lost are computed anew, with those of the other rows of the warp. Elsewhere
// that is at most 2^-26.5 of the row, below half of the 2^-25.3 that rounding its results to floats costs.
//
// Of ordinary operands a value in 20,000 or fewer is small, and a row's sums are 2000 times as large as they have to be: a few of
// them tell.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

// The size that sums have to have for one small value in a row whose largest is 2^14, in a column of scale 1: 2^26.5 - 11.
constexpr float kReach = 46341.0f;
constexpr float kLargestOf = 11.0f / 128.0f;  // 1 / sqrt(128), not above: what the largest of 128 says of their size

// Of a row or column of an operand: how its values are scaled, by 2^exponent, and how many eights of them have small ones.
constexpr int kExponentBits = 10;
constexpr int kExponentBias = 256;
constexpr int kNoValue = 120;  // the exponent where all are 0

__device__ __forceinline__ int word_of(int exponent, int eights) {
    return eights << kExponentBits | (exponent + kExponentBias);
}
__device__ __forceinline__ int exponent_in(int word) { return (word & ((1 << kExponentBits) - 1)) - kExponentBias; }
__device__ __forceinline__ int eights_in(int word) { return word >> kExponentBits; }

// 2^-exponent, of one that a column has.
__device__ __forceinline__ float back_from(int exponent) { return __int_as_float((127 - min(max(exponent, -kNoValue), kNoValue)) << 23); }

// Whether some of the values are not 0 and below 2^(-2 - exponent).
template <int COUNT>
__device__ __forceinline__ bool has_small(const float* v, int exponent) {
    unsigned least = 0xffffffffu;  // twice the bits, without the sign, less 1: a 0 is the largest
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const unsigned bits = __float_as_uint(v[i]);
        least = min(least, bits + bits - 1u);
    }
    const int enough = min(max(127 - 2 - exponent, 0), 254);
    return least < (static_cast<unsigned>(enough) << 24) - (enough > 0 ? 1u : 0u);
}

// What this thread's two rows may have lost.
struct Small {
    float reach[2];   // kReach, times the largest that they were multiplied by; 0 where there is nothing to lose
    float values[2];  // of the row that are small, at most

    __device__ __forceinline__ float needed(int half, float widest, float of_column) const {
        return reach[half] * widest * sqrtf(values[half] + of_column);
    }
};

// What the words of columns say of all of them: the largest 2^-exponent, and the most small values.
struct Columns {
    float widest, small;

    template <int N>
    __device__ __forceinline__ explicit Columns(const int2 (&words)[N]) {
        int most = 0, least = kExponentBias + kNoValue;
        #pragma unroll
        for (int j = 0; j < N; ++j) {
            most = max(most, max(words[j].x, words[j].y));
            least = min(least, min(words[j].x & ((1 << kExponentBits) - 1), words[j].y & ((1 << kExponentBits) - 1)));
        }
        widest = back_from(least - kExponentBias);
        small = static_cast<float>(eights_in(most)) * 8.0f;
    }
};

// Whether a few of this thread's sums leave it open if what its rows may have lost is too much: sums of two rows in N / 2 columns
// with these words, as the tensor cores leave them.
template <int N>
__device__ __forceinline__ bool may_be_lost(const float (&sum)[N], const int2 (&words)[N / 4], const Small& small) {
    const Columns columns(words);
    float largest[2] = {};
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float first = back_from(exponent_in(words[j].x)), second = back_from(exponent_in(words[j].y));
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            largest[half] = fmaxf(largest[half], fabsf(sum[4 * j + 2 * half]) * first);
            largest[half] = fmaxf(largest[half], fabsf(sum[4 * j + 2 * half + 1]) * second);
        }
    }
    return largest[0] * kLargestOf < small.needed(0, columns.widest, columns.small) ||
           largest[1] * kLargestOf < small.needed(1, columns.widest, columns.small);
}

// Whether a warp has a row that may have lost too much; the same in all its lanes.
template <int N>
__device__ __forceinline__ bool is_lost(const float (&sum)[N], const int2 (&words)[N / 4], const Small& small) {
    Columns columns(words);
    float largest[2] = {}, all[2] = {};
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int word = i % 2 == 0 ? words[i / 4].x : words[i / 4].y, half = i / 2 % 2;
        const float size = fabsf(sum[i]) * back_from(exponent_in(word));
        largest[half] = fmaxf(largest[half], size);
        all[half] += size;
    }
    for (int lane = 1; lane < 4; lane *= 2) {  // four lanes share a row
        columns.widest = fmaxf(columns.widest, __shfl_xor_sync(0xffffffffu, columns.widest, lane));
        columns.small = fmaxf(columns.small, __shfl_xor_sync(0xffffffffu, columns.small, lane));
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], lane));
            all[half] += __shfl_xor_sync(0xffffffffu, all[half], lane);
        }
    }
    bool lost = false;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float size = fmaxf(largest[half] * kLargestOf, all[half] * (1.0f / 128.0f));
        lost = lost || size < small.needed(half, columns.widest, columns.small);
    }
    return __any_sync(0xffffffffu, lost);
}

constexpr int kAnewSlice = 4;    // of depth
constexpr int kAnewDepth = 64;   // that is added up by itself
constexpr int kAnewWarps = 8;    // of a block, the first ones
constexpr int kAnewPad = 8;      // columns: the slice's depths begin at different banks

// A warp's sums over [begin, end) of the depth in float arithmetic, in their places. `a(row, depth)` is a value of one of its 16
// rows, `b(column, depth)` of its 2 * N columns; b.by_rows: columns are neighbours in memory.
template <int N, class A, class B>
__device__ __forceinline__ void multiply_anew(float (&sum)[N], const A& a, const B& b, int64_t begin, int64_t end) {
    constexpr int kColumns = 2 * N;
    struct Slice {
        float a[kAnewSlice][16];
        __align__(8) float b[kAnewSlice][kColumns + kAnewPad];
    };
    __shared__ Slice slices[kAnewWarps];
    Slice& slice = slices[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
    float partial[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = partial[i] = 0.0f;
    #pragma unroll 1
    for (int64_t first = begin; first < end; first += kAnewSlice) {
        float of_a[2], of_b[N / 4];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int64_t depth = first + lane % 4;
            of_a[i] = depth < end ? a(lane / 4 + 8 * i, depth) : 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            const int64_t depth = first + (b.by_rows ? i % 4 : lane % 4);
            of_b[i] = depth < end ? b(b.by_rows ? i / 4 * 32 + lane : lane / 4 + 8 * i, depth) : 0.0f;
        }
        __syncwarp();
        #pragma unroll
        for (int i = 0; i < 2; ++i) slice.a[lane % 4][lane / 4 + 8 * i] = of_a[i];
        #pragma unroll
        for (int i = 0; i < N / 4; ++i) {
            slice.b[b.by_rows ? i % 4 : lane % 4][b.by_rows ? i / 4 * 32 + lane : lane / 4 + 8 * i] = of_b[i];
        }
        __syncwarp();
        #pragma unroll
        for (int depth = 0; depth < kAnewSlice; ++depth) {
            const float of_rows[2] = {slice.a[depth][row], slice.a[depth][row + 8]};
            #pragma unroll
            for (int j = 0; j < N / 4; ++j) {
                const float2 two = *reinterpret_cast<const float2*>(&slice.b[depth][8 * j + column]);
                #pragma unroll
                for (int half = 0; half < 2; ++half) {
                    partial[4 * j + 2 * half] = fmaf(of_rows[half], two.x, partial[4 * j + 2 * half]);
                    partial[4 * j + 2 * half + 1] = fmaf(of_rows[half], two.y, partial[4 * j + 2 * half + 1]);
                }
            }
        }
        if ((first - begin) % kAnewDepth < kAnewDepth - kAnewSlice && first + kAnewSlice < end) continue;
        #pragma unroll
        for (int i = 0; i < N; ++i) {
            sum[i] += partial[i];
            partial[i] = 0.0f;
        }
    }
}

}  // namespace kernelwright::linear
