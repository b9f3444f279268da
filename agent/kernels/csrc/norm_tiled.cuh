// LayerNorm and RMSNorm, forward, of rows in float32 that leave lanes idle, or that SMs hold all at once: a block copies the
// rows that it takes into shared memory as they lie, end to end, and writes them so.
#pragma once

#include "divisor.cuh"
#include "norm_held.cuh"
#include "row_teams.cuh"

namespace kernelwright {

constexpr int kTiledThreads = 128;
constexpr int kTiledBlocks = 16;  // on an SM

// kTeam neighbouring lanes of a warp add up a row. RMSNorm has no bias.
template <int kTeam, bool kCentred, typename T, int V>
__global__ void __launch_bounds__(kTiledThreads, kTiledBlocks) norm_tiled(
    const Pack<T, V>* x, Parameter weight, Parameter bias, Pack<T, V>* __restrict__ y, float* __restrict__ means,
    float* __restrict__ rstds, unsigned rows, Divisor<unsigned> packs, float share, float eps) {
    constexpr int kRows = kTiledThreads / kTeam;
    extern __shared__ __align__(kVectorBytes) unsigned char shared[];
    __shared__ float2 of_row[kRows];  // mean and reciprocal deviation
    auto* tile = reinterpret_cast<Pack<T, V>*>(shared);
    await_earlier();
    const int thread = int(threadIdx.x), lane = thread % kTeam, own = thread / kTeam;
    const unsigned first = blockIdx.x * kRows, here = min(unsigned(kRows), rows - first), count = here * packs.by;
    x += int64_t{first} * packs.by;
    y += int64_t{first} * packs.by;
    for (unsigned i = thread; i < count; i += kTiledThreads) copy_async(tile + i, x + i);
    copies_asked_for();
    copies_wait(0);
    __syncthreads();
    // f(element) for each of a lane's; of a row that is not there none.
    const auto each = [&](auto f) {
        for (unsigned i = lane; i < packs.by && own < int(here); i += kTeam) {
            const Pack<float, V> wide = widened(Pack<T, V>(tile[own * packs.by + i]));
            #pragma unroll
            for (const float one : wide.v) f(one);
        }
    };
    float sum = 0.0f, squares = 0.0f, mean = 0.0f;
    if (kCentred) {
        each([&](float one) { sum += one; });
        mean = sum_over_lanes<kTeam>(sum) * share;
    }
    each([&](float one) { squares = fmaf(one - mean, one - mean, squares); });
    const float rstd = rsqrtf(sum_over_lanes<kTeam>(squares) * share + eps);
    if (lane == 0) of_row[own] = {mean, rstd};
    __syncthreads();
    if (!kCentred) bias.values = nullptr;
    for (unsigned i = thread; i < count; i += kTiledThreads) {
        const unsigned row = packs.of(i);
        Affine<T, V> affine;
        affine.load(weight, bias, int(i - row * packs.by));
        y[i] = affine.of(widened(Pack<T, V>(tile[i])), of_row[row].x, of_row[row].y);
    }
    if (rstds == nullptr || lane != 0 || own >= int(here)) return;
    if (kCentred) means[first + own] = mean;
    rstds[first + own] = rstd;
}

template <int kTeam, bool kCentred, typename T, int V>
cudaError_t launch_tiled(const AddRowForward& args) {
    constexpr int64_t kRows = kTiledThreads / kTeam;
    return launched_with(
        norm_tiled<kTeam, kCentred, T, V>, unsigned((args.rows + kRows - 1) / kRows), kTiledThreads,
        kRows * args.length * int64_t{sizeof(T)}, args.stream, static_cast<const Pack<T, V>*>(args.x), weight_of(args),
        bias_of(args), static_cast<Pack<T, V>*>(args.y), args.mean, args.rstd, unsigned(args.rows),
        Divisor<unsigned>(args.length / V), 1.0f / float(args.length), float(args.eps));
}

}  // namespace kernelwright
