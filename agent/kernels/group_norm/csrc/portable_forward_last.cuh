// Forward for the channels-last layout [n][position][channel].
//
// A block handles a slab of positions of one sample and a tile of whole groups, and reads rows of consecutive channels.
// slab_moments, then apply_slab: two launches. If a slab is the whole sample, apply_slab alone computes moments and
// result.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

constexpr int kSlabThreads = 256;
constexpr int kTileGroups = 256;
constexpr int kRunPositions = 16;

// Partition of a tensor. The last tile and the last slab of a sample may be smaller.
struct Slabs {
    int64_t slabs;           // slabs per sample
    int64_t positions;       // positions per slab
    int64_t tiles;           // tiles of the channels
    int64_t tile_groups;     // groups per tile, at most kTileGroups; a tile begins with a whole pack
    int64_t group_channels;
    int across;              // threads side by side in a row of channels; threads after them handle further positions
};

// One block's part of the tensor: positions of one sample and a tile of channels.
struct Slab {
    int64_t sample;
    int64_t slab;
    int64_t first_group, groups;
    int64_t first_channel, channels;
    int64_t begin, end;      // the slab's positions
    int64_t start;           // element offset of the sample's first position in the tile's first channel
};

__device__ __forceinline__ Slab slab_of(const Slabs& cut, int64_t block, int64_t groups, int64_t spatial) {
    Slab s;
    const Split slabs = split(block, cut.slabs);
    const Split tiles = split(slabs.quotient, cut.tiles);
    s.slab = slabs.remainder;
    s.sample = tiles.quotient;
    const int64_t tile = tiles.remainder;
    s.first_group = tile * cut.tile_groups;
    const int64_t left = groups - s.first_group;
    s.groups = cut.tile_groups < left ? cut.tile_groups : left;
    s.first_channel = s.first_group * cut.group_channels;
    s.channels = s.groups * cut.group_channels;
    s.begin = s.slab * cut.positions;
    s.end = s.begin + cut.positions < spatial ? s.begin + cut.positions : spatial;
    s.start = s.sample * spatial * groups * cut.group_channels + s.first_channel;
    return s;
}

// Adds the threads' sums of each channel to of_group[g]. of_lane[thread * V + k] is the sum of lane k of the pack at
// channel `base` + thread % across * V. The block has just written of_lane; the function ends with a barrier.
template <int V>
__device__ __forceinline__ void add_to_groups(const Slabs& cut, const Slab& s, int64_t base, const Pair* of_lane,
                                              Pair* of_group) {
    const int warp = threadIdx.x / kWarp;
    const int width = cut.across * V;
    const int rows = kSlabThreads / cut.across;
    __syncthreads();
    for (int64_t g = warp; g < s.groups; g += kSlabThreads / kWarp) {
        int64_t low = g * cut.group_channels - base;
        int64_t high = low + cut.group_channels;
        low = low < 0 ? 0 : low;
        high = high < width ? high : width;
        Pair total = {0.0, 0.0};
        const int64_t channels = high - low;
        for (int64_t e = threadIdx.x % kWarp; e < channels * rows; e += kWarp) {
            const Split at = split(e, channels);
            total = total + of_lane[at.quotient * width + low + at.remainder];
        }
        total = warp_sum(total, kWarp);
        if (threadIdx.x % kWarp == 0) of_group[g] = of_group[g] + total;
    }
    __syncthreads();
}

// Computes the sums of the slab for each group of the tile, in of_group.
template <typename T, int V>
__device__ __forceinline__ void sum_slab(const Forward& f, const Slabs& cut, const Slab& s, Pair* of_lane,
                                         Pair* of_group) {
    for (int64_t g = threadIdx.x; g < s.groups; g += kSlabThreads) of_group[g] = {0.0, 0.0};
    const int column = threadIdx.x % cut.across;
    const int rows = kSlabThreads / cut.across;
    const T* x = static_cast<const T*>(f.x) + s.start;
    for (int64_t base = 0; base < s.channels; base += cut.across * V) {
        const int64_t c = base + column * V;
        Pair total[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) total[k] = {0.0, 0.0};
        int64_t p = s.begin + threadIdx.x / cut.across;
        if (c >= s.channels || static_cast<int>(threadIdx.x) >= rows * cut.across) p = s.end;
        while (p < s.end) {
            Run run[V];
            #pragma unroll
            for (int i = 0; i < kRunPositions; ++i, p += rows) {
                if (p >= s.end) break;
                const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(x + p * f.channels + c);
                #pragma unroll
                for (int k = 0; k < V; ++k) {
                    const float value = to_float(pack.v[k]);
                    if (i == 0) run[k].start(value);
                    run[k].add(value);
                }
            }
            #pragma unroll
            for (int k = 0; k < V; ++k) total[k] = total[k] + run[k].total();
        }
        if (static_cast<int>(threadIdx.x) < rows * cut.across) {
            #pragma unroll
            for (int k = 0; k < V; ++k) of_lane[threadIdx.x * V + k] = total[k];
        }
        add_to_groups<V>(cut, s, base, of_lane, of_group);
    }
}

// Sums a slab per block and writes partials[(sample * slabs + slab) * groups + group].
template <typename T, int V>
__global__ void __launch_bounds__(kSlabThreads) slab_moments(const Forward f, const Slabs cut, Pair* partials) {
    await_earlier();
    let_next_begin();
    __shared__ Pair of_lane[kSlabThreads * V];
    __shared__ Pair of_group[kTileGroups];
    const Slab s = slab_of(cut, blockIdx.x, f.groups, f.spatial);
    sum_slab<T, V>(f, cut, s, of_lane, of_group);
    Pair* mine = partials + (s.sample * cut.slabs + s.slab) * f.groups + s.first_group;
    for (int64_t g = threadIdx.x; g < s.groups; g += kSlabThreads) mine[g] = of_group[g];
}

// Computes the result of a slab per block. If partials is null, a slab is the whole sample, and the block computes the
// sums itself.
template <typename T, int V>
__global__ void __launch_bounds__(kSlabThreads) apply_slab(const Forward f, const Slabs cut, const Pair* partials) {
    await_earlier();
    __shared__ Pair of_lane[kSlabThreads * V];
    __shared__ Pair of_group[kTileGroups];
    __shared__ Moments moments[kTileGroups];
    const Slab s = slab_of(cut, gridDim.x - 1 - blockIdx.x, f.groups, f.spatial);
    if (partials == nullptr) {
        sum_slab<T, V>(f, cut, s, of_lane, of_group);
    } else {
        for (int64_t g = threadIdx.x / kWarp; g < s.groups; g += kSlabThreads / kWarp) {
            const Pair* parts = partials + s.sample * cut.slabs * f.groups + s.first_group + g;
            Pair total = {0.0, 0.0};
            for (int64_t i = threadIdx.x % kWarp; i < cut.slabs; i += kWarp) total = total + parts[i * f.groups];
            total = warp_sum(total, kWarp);
            if (threadIdx.x % kWarp == 0) of_group[g] = total;
        }
        __syncthreads();
    }
    const double share = 1.0 / static_cast<double>(cut.group_channels * f.spatial);
    for (int64_t g = threadIdx.x; g < s.groups; g += kSlabThreads) {
        moments[g] = moments_of(of_group[g], share, f.eps);
        if (s.slab != 0 || f.mean == nullptr) continue;
        f.mean[s.sample * f.groups + s.first_group + g] = moments[g].mean;
        f.rstd[s.sample * f.groups + s.first_group + g] = moments[g].rstd;
    }
    __syncthreads();

    const int rows = kSlabThreads / cut.across;
    if (static_cast<int>(threadIdx.x) >= rows * cut.across) return;
    for (int64_t c = threadIdx.x % cut.across * V; c < s.channels; c += cut.across * V) {
        float mean[V];
        float scale[V];
        float offset[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const Moments m = moments[quotient(c + k, cut.group_channels)];
            mean[k] = m.mean;
            const Affine affine = affine_of<T>(f.weight, f.bias, f.param_dtype, s.first_channel + c + k);
            scale[k] = m.rstd * affine.weight;
            offset[k] = fmaf(-m.rest, scale[k], affine.bias);
        }
        #pragma unroll 1
        for (int64_t p = s.begin + threadIdx.x / cut.across; p < s.end; p += rows) {
            const int64_t at = s.start + p * f.channels + c;
            Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(f.x) + at);
            Pack<float, V> z;
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(pack.v[k]) - mean[k], scale[k], offset[k]);
            if (f.residual != nullptr) {
                const Pack<T, V> residual = *reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(f.residual) + at);
                #pragma unroll
                for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
            }
            if (f.act != kNone) z = activate_pack<V>(f.act, z);
            #pragma unroll
            for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
            *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(f.y) + at) = pack;
        }
    }
}

}  // namespace kernelwright::group_norm
