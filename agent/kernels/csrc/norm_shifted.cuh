// LayerNorm and RMSNorm, forward, of float32 rows that begin anywhere, as those of an odd length do: the threads of a
// block read and write the row in packs that begin on 16 bytes, and what its two ends cut off element by element.
#pragma once

#include "norm_held.cuh"

namespace kernelwright {

constexpr int kShiftedPacks = 2;  // of a row, in one thread's registers
constexpr int kShiftedThreads = 512;
constexpr int kShiftedBlocks = 4;  // on an SM
constexpr int kShifted = kVector<float>;
constexpr int64_t kMaxShifted = (kShiftedPacks * kShiftedThreads - 2) * kShifted;  // elements of a row

// Whether rows of x and y begin at the same places of 16 bytes.
inline bool begin_alike(const void* x, const void* y) {
    return (reinterpret_cast<uintptr_t>(x) - reinterpret_cast<uintptr_t>(y)) % kVectorBytes == 0;
}

// RMSNorm has no bias.
template <bool kCentred>
__global__ void __launch_bounds__(kShiftedThreads, kShiftedBlocks) norm_shifted(
    const float* x, const float* weight, const float* bias, float* __restrict__ y, float* __restrict__ means,
    float* __restrict__ rstds, int length, float share, float eps) {
    await_earlier();
    using Packed = Pack<float, kShifted>;
    __shared__ alignas(float4) float of_mean[kMaxWarps], of_variance[kMaxWarps];
    const int64_t row = blockIdx.x;
    x += row * length;
    y += row * length;
    const int before = int(reinterpret_cast<uintptr_t>(x) % kVectorBytes / sizeof(float));  // elements of the first pack
    const int first = int(threadIdx.x) * kShifted - before, step = int(blockDim.x) * kShifted;
    // f(u, at, whole) for each of the thread's packs: `at` is where it begins in the row, and `whole` whether all of it
    // lies there.
    const auto each = [&](auto f) {
        #pragma unroll
        for (int u = 0; u < kShiftedPacks; ++u) {
            const int at = first + u * step;
            if (at < length) f(u, at, at >= 0 && at + kShifted <= length);
        }
    };
    const auto is_there = [&](int at) { return at >= 0 && at < length; };
    Packed kept[kShiftedPacks];
    each([&](int u, int at, bool whole) {
        if (whole) {
            kept[u] = *reinterpret_cast<const Packed*>(x + at);
        } else {
            #pragma unroll
            for (int k = 0; k < kShifted; ++k) kept[u].v[k] = is_there(at + k) ? x[at + k] : 0.0f;
        }
    });
    float sum = 0.0f, squares = 0.0f;
    each([&](int u, int, bool) {
        #pragma unroll
        for (const float one : kept[u].v) {
            if (kCentred) sum += one;
            else squares = fmaf(one, one, squares);
        }
    });
    const float mean = kCentred ? block_sum(sum, of_mean) * share : 0.0f;
    if (kCentred) {
        each([&](int u, int at, bool whole) {
            #pragma unroll
            for (int k = 0; k < kShifted; ++k) {
                const float deviation = whole || is_there(at + k) ? kept[u].v[k] - mean : 0.0f;
                squares = fmaf(deviation, deviation, squares);
            }
        });
    }
    const float rstd = rsqrtf(block_sum(squares, of_variance) * share + eps);
    each([&](int u, int at, bool whole) {
        #pragma unroll
        for (int k = 0; k < kShifted; ++k) {
            const int place = min(max(at + k, 0), length - 1);
            const float scale = weight == nullptr ? 1.0f : weight[place];
            const float shift = !kCentred || bias == nullptr ? 0.0f : bias[place];
            kept[u].v[k] = fmaf((kept[u].v[k] - mean) * rstd, scale, shift);
        }
        if (whole) {
            *reinterpret_cast<Packed*>(y + at) = kept[u];
        } else {
            #pragma unroll
            for (int k = 0; k < kShifted; ++k) {
                if (is_there(at + k)) y[at + k] = kept[u].v[k];
            }
        }
    });
    if (rstds != nullptr && threadIdx.x == 0) {
        if (kCentred) means[row] = mean;
        rstds[row] = rstd;
    }
}

template <bool kCentred, typename Args>
cudaError_t launch_shifted(const Args& args) {
    const unsigned threads = block_for(args.length / kShifted + 2, kShiftedPacks);
    return launched(
        norm_shifted<kCentred>, unsigned(args.rows), threads, args.stream, static_cast<const float*>(args.x),
        static_cast<const float*>(args.weight), static_cast<const float*>(args.bias), static_cast<float*>(args.y),
        args.mean, args.rstd, int(args.length), 1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
