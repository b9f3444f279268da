// Split of operands that are read once into two fp16 per value, hi and lo. The four products take two thirds of the tensor core work of
// three bf16.
//
// Values are scaled by powers of two, since fp16 has a narrow range. 32 adjacent depths of a row share the scale of their largest value. A
// fourth of the tile's columns share a scale that the splitting warp keeps until the values overflow it or fall far below. A chunk's sums
// are scaled back as they are added.
//
// Ties are rounded up or down in turn, so that the error has no bias (linear_fp32x3/csrc/split_sm90.cuh).
//
// The error is small compared to the largest products of each 32 of depth, and so to a row's sums, unless those are small themselves. Sums
// are small if large values meet zeros, products cancel, or a column is far smaller than the others that share its scale. Each block tests
// for that, for infinities and for NaN, and recomputes its part by three bf16 if it finds any.
#pragma once

#include "registers_sm90.cuh"
#include "strips_sm90.cuh"

namespace kernelwright::matmul {

__device__ __forceinline__ uint32_t bits_of(__half2 pair) { return *reinterpret_cast<const uint32_t*>(&pair); }

// A power of two that scales magnitudes below 2 * largest to at most 2^15, and the factor that undoes it, which is 0 for zeros.
struct PowerScale {
    float scale, factor;

    __device__ __forceinline__ static PowerScale of(float largest) {
        constexpr uint32_t kExponent = 0x7f800000, kLeast = 15u << 23;  // so that scale and factor are both normal
        const uint32_t bits = max(__float_as_uint(largest) & kExponent, kLeast);
        return {__uint_as_float((268u << 23) - bits), largest > 0.0f ? __uint_as_float(bits - (14u << 23)) : 0.0f};
    }
};

// Splits two adjacent depths into hi and lo. `turn` selects which of the two rounds a tie of lo up.
__device__ __forceinline__ void split_two(float first, float second, bool turn, uint32_t& hi, uint32_t& lo) {
    constexpr float kUp = 1.0f + 1.0f / 16384, kDown = 1.0f - 1.0f / 16384;
    const __half2 high = __floats2half2_rn(first, second);
    const float2 back = __half22float2(high);
    hi = bits_of(high), lo = bits_of(__floats2half2_rn((first - back.x) * (turn ? kUp : kDown), (second - back.y) * (turn ? kDown : kUp)));
}

constexpr unsigned kTurns = 0x96;  // every two adjacent bits are one 1 and one 0

// A chunk of a warp's rows as fragments of the products, twice 16 depths.
struct LeftHalves {
    static constexpr int kProducts = 4;
    uint32_t of[2][2][4];
    float factors[2];  // of rows lane / 4 and lane / 4 + 8

    __device__ __forceinline__ void split(const float2 (&v)[2][4]) {
        float scales[2];
        #pragma unroll
        for (int row = 0; row < 2; ++row) {
            float largest = 0.0f;
            #pragma unroll
            for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fmaxf(fabsf(v[row][i].x), fabsf(v[row][i].y)));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            const PowerScale both = PowerScale::of(largest);
            scales[row] = both.scale, factors[row] = both.factor;
        }
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float2 two = v[i % 2][i / 2];
            split_two(two.x * scales[i % 2], two.y * scales[i % 2], kTurns >> i & 1, of[0][i / 4][i % 4], of[1][i / 4][i % 4]);
        }
    }
    // Returns the parts of both operands in the i-th product. Small products come first, while the accumulator holds nothing large to
    // truncate them against.
    __device__ __forceinline__ static int2 product(int i) {
        constexpr int kOf[kProducts][2] = {{1, 1}, {1, 0}, {0, 1}, {0, 0}};
        return {kOf[i][0], kOf[i][1]};
    }
    template <int SUMS>
    __device__ __forceinline__ void multiply(float (&partial)[SUMS], int part, int half, uint64_t right, int add) const {
        multiply_fp16(partial, of[part][half], right, add);
    }
};

// Returns the largest magnitude of a thread's values.
template <int N>
__device__ __noinline__ float largest_of_column(const RightColumns<N>& columns, const unsigned char* from) {
    float largest = 0.0f;
    for (int i = 0; i < RightColumns<N>::kEights; ++i) {
        float v[8];
        columns.read(v, from, i);
        #pragma unroll
        for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fabsf(v[j]));
    }
    return largest;
}

__device__ __forceinline__ float warp_largest(float size) { return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(size))); }

// State of the split into two fp16. Products are at most 2^30 times the factors of a row and a group of columns. Largest and total of
// these factors are tracked. `usual` is the magnitude that sums of random sign then come to.
struct Halves {
    using Left = LeftHalves;
    static constexpr int kParts = 2;
    float most[2] = {}, all[2] = {};

    struct Factors {
        float of[2][kGroups];

        __device__ __forceinline__ Factors(Halves& reach, const LeftHalves& left, const float* of_groups) {
            const float4 groups = *reinterpret_cast<const float4*>(of_groups);
            const float largest = fmaxf(fmaxf(groups.x, groups.y), fmaxf(groups.z, groups.w));
            #pragma unroll
            for (int row = 0; row < 2; ++row) {
                const float factor = left.factors[row];
                of[row][0] = factor * groups.x, of[row][1] = factor * groups.y;
                of[row][2] = factor * groups.z, of[row][3] = factor * groups.w;
                reach.most[row] = fmaxf(reach.most[row], factor * largest), reach.all[row] += factor * largest;
            }
        }
        template <int N>
        __device__ __forceinline__ float added(float sum, float partial, int i) const {
            return fmaf(partial, of[i / 2 % 2][i / (N / 2 / kGroups)], sum);
        }
    };

    // Doubts about the sums of a block's rows. `lost`: the loss of small values may matter in some row, or there is an infinity or NaN.
    // `is_short`: a row's sums are below 2^-8 of `usual`, where normally distributed values give 2^-5. The error of single products may
    // then matter.
    struct Doubt {
        bool lost, is_short;
    };

    template <int N>
    __device__ __forceinline__ Doubt doubt_of(const float (&sum)[N / 2]) const {
        constexpr float kProduct = 1073741824.0f, kLost = kProduct / 32768, kShort = kProduct / 256;
        Doubt found = {false, true};
        #pragma unroll
        for (int row = 0; row < 2; ++row) {
            float sizes = 0.0f, largest = 0.0f;
            #pragma unroll
            for (int i = 2 * row; i < N / 2; i += 4) {
                sizes += fabsf(sum[i]) + fabsf(sum[i + 1]);
                largest = fmaxf(largest, fmaxf(fabsf(sum[i]), fabsf(sum[i + 1])));
            }
            #pragma unroll
            for (int lanes = 1; lanes < 4; lanes *= 2) {
                sizes += __shfl_xor_sync(0xffffffffu, sizes, lanes);
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
            }
            const float usual = sqrtf(most[row]) * sqrtf(kChunk * all[row]);
            found.lost = found.lost || !(sizes >= kLost * N * usual && isfinite(sizes));
            found.is_short = found.is_short && largest < kShort * usual;
        }
        return found;
    }

    static constexpr float kFarBelow = 1.0f / 262144;  // 2^-18, where values keep some 20 bits

    template <int N>
    struct Right {
        PowerScale of = {1.0f, 0.0f};
        bool in_doubt = false;  // a column was far below the largest when a scale was chosen

        __device__ __forceinline__ explicit Right(int) {}
        __device__ __forceinline__ void split(const RightColumns<N>& columns, unsigned char* to, float* factors, const unsigned char* from,
                                              int) {
            #pragma unroll 1
            for (bool again = false;; again = true) {
                const __half2 largest = split_by(of.scale, columns, to, from);
                const float mine = __half2float(__hmax(__low2half(largest), __high2half(largest)));
                const float most = warp_largest(mine);
                const bool fits = of.factor > 0.0f && most < 32768.0f && (most >= 2048.0f || most == 0.0f);
                if (again || fits) break;
                const float size = largest_of_column<N>(columns, from), of_group = warp_largest(size);
                of = PowerScale::of(2.0f * of_group);
                in_doubt = in_doubt || (size > 0.0f && size < kFarBelow * of_group);
            }
            if (threadIdx.x % 32 == 0) factors[threadIdx.x % kRightThreads / 32] = of.factor;
        }

        // Splits a thread's values. Returns the largest scaled magnitude.
        __device__ __forceinline__ static __half2 split_by(float scale, const RightColumns<N>& columns, unsigned char* to,
                                                           const unsigned char* from) {
            __half2 largest = __float2half2_rn(0.0f);
            #pragma unroll 1
            for (int i = 0; i < RightColumns<N>::kEights; ++i) {
                float v[8];
                uint32_t hi[4], lo[4];
                columns.read(v, from, i);
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    split_two(v[2 * j] * scale, v[2 * j + 1] * scale, kTurns >> j & 1, hi[j], lo[j]);
                    largest = __hmax2(largest, __habs2(*reinterpret_cast<const __half2*>(hi + j)));
                }
                *reinterpret_cast<uint4*>(to + columns.place(i)) = uint4{hi[0], hi[1], hi[2], hi[3]};
                *reinterpret_cast<uint4*>(to + kPartBytes<N> + columns.place(i)) = uint4{lo[0], lo[1], lo[2], lo[3]};
            }
            return largest;
        }
    };
};

}  // namespace kernelwright::matmul
