// Rows of 16-bit elements made wider with zeros, or narrower, for products of torch's whose rows would begin at odd elements.
#pragma once

#include <algorithm>

#include "sizes.cuh"

namespace kernelwright::matmul_half {

constexpr int kRowThreads = 256;
constexpr int kRowsAtOnce = 4;  // words of a thread

// A block for each row in turn, a thread for each word of it. What lies before the first whole word or behind the last is an
// element of its own.
__global__ void __launch_bounds__(kRowThreads) copy_rows_kernel(const __grid_constant__ Rows args) {
    const auto* values = static_cast<const uint16_t*>(args.from);
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
        const uint16_t* from = values + row * args.from_length;
        uint16_t* to = static_cast<uint16_t*>(args.to) + row * args.length;
        const int64_t there = row < args.from_rows ? min(args.from_length, args.length) : 0;
        const auto element = [&](int64_t i) { return i < there ? __ldg(from + i) : uint16_t{0}; };
        const int64_t first = reinterpret_cast<uintptr_t>(to) / 2 % 2;  // of the first whole word
        const int64_t words = (args.length - first) / 2, last = first + 2 * words;
        auto* whole = reinterpret_cast<uint32_t*>(to + first);
        for (int64_t begin = threadIdx.x; begin < words; begin += kRowThreads * kRowsAtOnce) {
            uint32_t v[kRowsAtOnce];
            #pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i) {
                const int64_t at = first + 2 * (begin + i * kRowThreads);
                v[i] = static_cast<uint32_t>(element(at + 1)) << 16 | element(at);
            }
            #pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i) {
                if (begin + i * kRowThreads < words) whole[begin + i * kRowThreads] = v[i];
            }
        }
        if (threadIdx.x == 0 && first > 0) to[0] = element(0);
        if (threadIdx.x == 0 && last < args.length) to[last] = element(last);
    }
}

inline cudaError_t copy_rows(const Rows& args) {
    constexpr int64_t kBlocks = 1 << 16;
    copy_rows_kernel<<<static_cast<unsigned>(std::min(args.rows, kBlocks)), kRowThreads, 0, args.stream>>>(args);
    return cudaGetLastError();
}

}  // namespace kernelwright::matmul_half
