// LayerNorm and RMSNorm without a gradient, for many short rows that end within a memory sector. A block copies several
// contiguous rows into shared memory, and writes them likewise. With one row at a time, two rows' threads would request
// the sector they share, and lanes would be idle.
#pragma once

#include "async_copy.cuh"
#include "divisor.cuh"
#include "row_norm_forward.cuh"

namespace kernelwright {

constexpr int kTiledThreads = 128;
constexpr int kTiledBlocks = 16;  // resident blocks per SM
constexpr int kTiledTeam = 8;     // neighbouring lanes that add up a row
constexpr int kTiledRows = kTiledThreads / kTiledTeam;

// Computes LayerNorm, or RMSNorm without kCentred, which has no bias.
template <bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kTiledThreads, kTiledBlocks) norm_tiled(
    const Pack<T, V>* x, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y, unsigned rows,
    Divisor<unsigned> packs, float share, float eps) {
    extern __shared__ __align__(kVectorBytes) unsigned char shared[];
    __shared__ float2 of_row[kTiledRows];  // mean and rstd
    auto* tile = reinterpret_cast<Pack<T, V>*>(shared);
    await_earlier();
    const int thread = int(threadIdx.x), lane = thread % kTiledTeam, own = thread / kTiledTeam;
    const unsigned first = blockIdx.x * kTiledRows, here = min(unsigned(kTiledRows), rows - first), count = here * packs.by;
    x += int64_t{first} * packs.by;
    y += int64_t{first} * packs.by;
    for (unsigned i = thread; i < count; i += kTiledThreads) copy_async(tile + i, x + i);
    copies_asked_for();
    copies_wait(0);
    __syncthreads();
    // Calls f(element) for each element of the lane; does nothing for rows beyond the last.
    const auto each = [&](auto f) {
        for (unsigned i = lane; i < packs.by && own < int(here); i += kTiledTeam) {
            const Pack<float, V> wide = widened(Pack<T, V>(tile[own * packs.by + i]));
            #pragma unroll
            for (const float one : wide.v) f(one);
        }
    };
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    if (kCentred) {
        each([&](float one) { sum += one; });
        mean = sum_over_lanes<kTiledTeam>(sum) * share;
    }
    each([&](float one) { squares = fmaf(one - mean, one - mean, squares); });
    const float rstd = rsqrtf(sum_over_lanes<kTiledTeam>(squares) * share + eps);
    if (lane == 0) of_row[own] = {mean, rstd};
    __syncthreads();
    if (!kCentred) bias.values = nullptr;
    for (unsigned i = thread; i < count; i += kTiledThreads) {
        const unsigned row = packs.of(i);
        Affine<T, V> affine;
        affine.load(weight, bias, int(i - row * packs.by));
        y[i] = affine.of(widened(Pack<T, V>(tile[i])), of_row[row].x, of_row[row].y);
    }
}

// Returns true for an odd number of packs from 17 to 31, with rows for more than 3/4 of the resident blocks of all SMs.
// Fewer rows are faster one at a time, and a backward that follows starts later behind tiled blocks.
inline bool is_tiled(const RowForward& args) {
    constexpr int V = kVector<float>;
    const int64_t packs = args.length / V;
    return args.dtype == kFloat32 && args.param_dtype == kFloat32 && packs % 2 == 1 && packs > kWarp / 2 && packs < kWarp &&
           in_vectors<float>(args.length, args.x, args.y, args.weight, args.bias) &&
           args.rstd == nullptr && 4 * args.rows > 3 * kSms * kTiledBlocks * kTiledRows && args.rows <= kMaxGrid;
}

template <bool kCentred, typename T = float, int V = kVector<T>>
cudaError_t launch_tiled(const RowForward& args) {
    return launched_with(
        norm_tiled<kCentred, T, V>, unsigned((args.rows + kTiledRows - 1) / kTiledRows), kTiledThreads,
        kTiledRows * args.length * int64_t{sizeof(T)}, args.stream, static_cast<const Pack<T, V>*>(args.x), weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), unsigned(args.rows), Divisor<unsigned>(args.length / V),
        1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
