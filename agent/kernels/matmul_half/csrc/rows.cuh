// Zero-pads or crops rows of 16-bit elements, for torch's products whose rows would begin at odd elements.
#pragma once

#include <algorithm>

#include "../../csrc/divisor.cuh"
#include "sizes.cuh"

namespace kernelwright::matmul_half {

constexpr int kRowThreads = 256;
constexpr int kRowWords = 4;   // words of 16 bytes per thread
constexpr int kWordElements = 8;  // elements per word of 16 bytes

// Returns the 16 bytes from element `element` of the adjacent words `low` and `high`.
__device__ __forceinline__ uint4 word_from(const uint4& low, const uint4& high, int element) {
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    #pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = element & 4 ? w[i + 2] : w[i];
    #pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = element & 2 ? w[i + 1] : w[i];
    #pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = element & 1 ? __funnelshift_r(w[i], w[i + 1], 16) : w[i];
    return {w[0], w[1], w[2], w[3]};
}

// Returns a word with its first `count` elements kept and all other elements 0.
__device__ __forceinline__ uint4 shortened(uint4 word, int count) {
    uint32_t w[4] = {word.x, word.y, word.z, word.w};
    #pragma unroll
    for (int i = 0; i < 4; ++i) w[i] &= count >= 2 * i + 2 ? 0xffffffffu : count == 2 * i + 1 ? 0xffffu : 0u;
    return {w[0], w[1], w[2], w[3]};
}

// Returns the number of elements between the start of the word that contains `values` and `values`.
inline unsigned skew_of(const void* values) {
    return unsigned(reinterpret_cast<uintptr_t>(values) / sizeof(uint16_t) % kWordElements);
}

// Copies rows. Each thread writes kRowWords words of `to`. A word within one row is assembled from two words of `from`. A word
// that spans rows, or touches an end of a row, is assembled from elements. Positions count from the first aligned word that
// contains each buffer's start.
template <typename Index>
__global__ void __launch_bounds__(kRowThreads) copy_rows_kernel(
    const __grid_constant__ Rows args, Divisor<Index> length, unsigned skew, unsigned from_skew) {
    const Index from_length = Index(args.from_length), from_rows = Index(args.from_rows);
    const Index end = Index(args.rows) * length.by + skew, from_end = from_rows * from_length + from_skew;
    const auto* from = static_cast<const uint16_t*>(args.from) - from_skew;
    auto* to = static_cast<uint16_t*>(args.to) - skew;
    const auto* words = reinterpret_cast<const uint4*>(from);
    const Index first = (Index(blockIdx.x) * (kRowThreads * kRowWords) + threadIdx.x) * kWordElements;
    uint4 low[kRowWords], high[kRowWords];
    int begins[kRowWords];  // index of a word's first element within `low`
    int taken[kRowWords];   // valid elements of a word; -1 if it is assembled from elements
    #pragma unroll
    for (int u = 0; u < kRowWords; ++u) {
        const Index place = first + Index(u * kRowThreads * kWordElements);
        taken[u] = -1;
        if (place < skew || place + kWordElements > end) continue;
        const Index row = length.of(place - skew), column = place - skew - row * length.by;
        if (column + kWordElements > length.by) continue;
        const bool is_there = row < from_rows && column < from_length;
        const Index at = row * from_length + column + from_skew, word = at / kWordElements;
        if (is_there && (word * kWordElements < from_skew || (word + 2) * kWordElements > from_end)) continue;
        taken[u] = is_there ? int(min(from_length - column, Index(kWordElements))) : 0;
        begins[u] = int(at % kWordElements);
        if (is_there) low[u] = __ldg(words + word);
        if (is_there && begins[u] > 0) high[u] = __ldg(words + word + 1);
    }
    #pragma unroll
    for (int u = 0; u < kRowWords; ++u) {
        const Index place = first + Index(u * kRowThreads * kWordElements);
        if (taken[u] >= 0) {
            const uint4 word = word_from(low[u], high[u], begins[u]);
            *reinterpret_cast<uint4*>(to + place) = taken[u] < kWordElements ? shortened(word, taken[u]) : word;
            continue;
        }
        uint16_t made[kWordElements];
        #pragma unroll
        for (int k = 0; k < kWordElements; ++k) {
            if (place + k < skew || place + k >= end) continue;
            const Index row = length.of(place + k - skew), column = place + k - skew - row * length.by;
            const bool is_there = row < from_rows && column < from_length;
            made[k] = is_there ? __ldg(from + from_skew + row * from_length + column) : uint16_t{0};
        }
        #pragma unroll
        for (int k = 0; k < kWordElements; ++k) {
            if (place + k >= skew && place + k < end) to[place + k] = made[k];
        }
    }
}

inline cudaError_t copy_rows(const Rows& args) {
    constexpr int64_t kEach = int64_t{kRowThreads} * kRowWords * kWordElements;
    const unsigned skew = skew_of(args.to), from_skew = skew_of(args.from);
    const int64_t count = args.rows * args.length, blocks = (count + skew + kEach - 1) / kEach;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const auto with = [&](auto length) {
        copy_rows_kernel<<<unsigned(blocks), kRowThreads, 0, args.stream>>>(args, length, skew, from_skew);
        return cudaGetLastError();
    };
    if (is_narrow(std::max(count, args.from_rows * args.from_length) + 2 * kEach)) {
        return with(Divisor<unsigned>(args.length));
    }
    return with(Divisor<int64_t>(args.length));
}

}  // namespace kernelwright::matmul_half
