// Split of operands that are read once into three bf16 per value (thirds_sm90.cuh), with six products.
#pragma once

#include "registers_sm90.cuh"
#include "strips_sm90.cuh"
#include "thirds_sm90.cuh"

namespace kernelwright::matmul {

// A chunk of a warp's rows as fragments of the products, twice 16 depths.
struct LeftThirds {
    static constexpr int kProducts = 6;
    uint32_t of[kThirds][2][4];

    __device__ __forceinline__ void put(int i, const Pair& pair) {
        #pragma unroll
        for (int part = 0; part < kThirds; ++part) of[part][i / 4][i % 4] = pair.of[part];
    }
    __device__ __forceinline__ void split(const float2 (&v)[2][4]) {
        uint32_t seen = 0;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float2 two = v[i % 2][i / 2];
            const Pair pair = nearest_thirds(two.x, two.y);
            put(i, pair);
            note_nan(seen, pair);
        }
        if (!has_nan(seen)) return;
        #pragma unroll
        for (int i = 0; i < 8; ++i) put(i, any_thirds(v[i % 2][i / 2].x, v[i % 2][i / 2].y));
    }
    // Returns the parts of both operands in the i-th product. Small products come first, while the accumulator holds nothing
    // large to truncate them against.
    __device__ __forceinline__ static int2 product(int i) {
        constexpr int kOf[kProducts][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
        return {kOf[i][0], kOf[i][1]};
    }
    template <int SUMS>
    __device__ __forceinline__ void multiply(float (&partial)[SUMS], int part, int half, uint64_t right, int add) const {
        multiply_bf16(partial, of[part][half], right, add);
    }
};

struct Thirds {
    using Left = LeftThirds;
    static constexpr int kParts = kThirds;

    // Three bf16 need no scales, so a chunk's sums have no factors.
    struct Factors {
        __device__ __forceinline__ Factors(Thirds&, const LeftThirds&, const float*) {}
        template <int N>
        __device__ __forceinline__ float added(float sum, float partial, int) const { return sum + partial; }
    };

    template <int N>
    struct Right {
        static constexpr bool in_doubt = false;
        int first;

        __device__ __forceinline__ explicit Right(int first) : first(first) {}
        __device__ __forceinline__ void split(const RightColumns<N>& columns, unsigned char* to, float*, const unsigned char* from,
                                              int chunk) {
            #pragma unroll 1
            for (int i = 0; i < RightColumns<N>::kEights; ++i) {
                float v[8];
                columns.read(v, from, i);
                const auto depth = static_cast<uint32_t>(chunk * 4 + columns.eighth + i * RightColumns<N>::kStep);
                Pair pairs[4];
                uint32_t seen = 0, drawn = linear::drawn_for(static_cast<uint32_t>(first + columns.column), depth);
                #pragma unroll
                for (int j = 0; j < 4; ++j, drawn = drawn * 0x915f77f5u + 0x93d765ddu) {
                    pairs[j] = drawn_thirds(v[2 * j], v[2 * j + 1], drawn);
                    note_nan(seen, pairs[j]);
                }
                if (has_nan(seen)) {
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) pairs[j] = any_thirds(v[2 * j], v[2 * j + 1]);
                }
                #pragma unroll
                for (int part = 0; part < kThirds; ++part) {
                    *reinterpret_cast<uint4*>(to + part * kPartBytes<N> + columns.place(i)) =
                        uint4{pairs[0].of[part], pairs[1].of[part], pairs[2].of[part], pairs[3].of[part]};
                }
            }
        }
    };
};

}  // namespace kernelwright::matmul
