// The kernel that adds up the split-K parts of read_once_sm90.cuh and applies the epilogue.
#pragma once

#include "read_once_sm90.cuh"

namespace kernelwright::matmul {

constexpr int kAddThreads = 256;
constexpr int kManyParts = 16;  // split-K parts; with more, several warps share the parts
constexpr int kAddShares = 8;

// Returns the number of elements that a block adds up.
inline int added_by_block(int64_t parts) { return kAddThreads / (parts > kManyParts ? kAddShares : 1); }

// Adds up the parts in a fixed order. Many parts are added in kAddShares shares, whose sums are then added.
__global__ void __launch_bounds__(kAddThreads) matmul_add_parts(const __grid_constant__ ReadOnce p) {
    __shared__ float of_shares[kAddThreads];
    await_earlier();
    const int shares = p.parts > kManyParts ? kAddShares : 1, elements = kAddThreads / shares;
    const int share = static_cast<int>(threadIdx.x) / elements;
    const int64_t count = int64_t{p.m} * p.n, at = static_cast<int64_t>(blockIdx.x) * elements + threadIdx.x % elements;
    const int begin = p.parts * share / shares, end = p.parts * (share + 1) / shares;
    float sum = at < count ? __ldcg(p.to + begin * count + at) : 0.0f;
    #pragma unroll 8
    for (int part = begin + 1; part < end; ++part) sum += at < count ? __ldcg(p.to + part * count + at) : 0.0f;
    if (shares > 1) {
        of_shares[threadIdx.x] = sum;
        __syncthreads();
        if (share > 0) return;
        for (int other = 1; other < kAddShares; ++other) sum += of_shares[other * elements + threadIdx.x];
    }
    if (at < count) p.out.y[at] = finished(p.out, sum, 0, at / p.n, at % p.n);
}

}  // namespace kernelwright::matmul
