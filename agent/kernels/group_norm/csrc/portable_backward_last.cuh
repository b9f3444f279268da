// Backward for the channels-last layout [n][position][channel]; for the formulas see portable_backward.cuh.
//
// slab_sums: db and ds of each channel over a slab of positions, and the weighted sums of each group. slab_gradients:
// dx and dresidual; further blocks of the same launch compute dweight and dbias.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "portable_backward.cuh"
#include "portable_forward_last.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

// The V channels that a thread's packs cover.
template <int V>
struct Channels {
    Channel of[V];
};

template <typename T, int V>
__device__ __forceinline__ Channels<V> channels_of(const Backward& b, const Slab& s, int64_t c,
                                                   int64_t group_channels) {
    Channels<V> channels;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        channels.of[k] = channel_of<T>(b, s.sample, s.first_channel + c + k, group_channels);
    }
    return channels;
}

template <int V>
struct Gradients {
    Pack<float, V> xhat;
    Pack<float, V> dz;
};

// Returns xhat and dz of the pack at element `at`.
template <typename T, int V>
__device__ __forceinline__ Gradients<V> gradients_at(const Backward& b, const Channels<V>& channels, int64_t at) {
    using Elements = Pack<T, V>;
    const Elements xs = *reinterpret_cast<const Elements*>(static_cast<const T*>(b.x) + at);
    const Elements dys = *reinterpret_cast<const Elements*>(static_cast<const T*>(b.dy) + at);
    Elements residual;
    if (reads_residual(b)) residual = *reinterpret_cast<const Elements*>(static_cast<const T*>(b.residual) + at);
    Gradients<V> g;
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const Channel& c = channels.of[k];
        g.xhat.v[k] = (to_float(xs.v[k]) - c.mean) * c.rstd;
        z.v[k] = fmaf(g.xhat.v[k], c.weight, c.bias);
    }
    g.dz = before_activation<T, V>(b, dys, residual, z);
    return g;
}

// Computes the sums of a slab: of_channel[(sample * slabs + slab) * channels + channel], and of_group[(sample * slabs +
// slab) * groups + group], which is weighted with the channels' weights.
template <typename T, int V>
__global__ void __launch_bounds__(kSlabThreads) slab_sums(const Backward b, const Slabs cut, Sums* of_channel,
                                                          Pair* of_group) {
    await_earlier();
    let_next_begin();
    __shared__ Pair of_lane[kSlabThreads * V];
    __shared__ Pair of_tile[kTileGroups];
    const Slab s = slab_of(cut, blockIdx.x, b.groups, b.spatial);
    for (int64_t g = threadIdx.x; g < s.groups; g += kSlabThreads) of_tile[g] = {0.0, 0.0};
    const int column = threadIdx.x % cut.across;
    const int rows = kSlabThreads / cut.across;
    const int64_t piece = s.sample * cut.slabs + s.slab;
    for (int64_t base = 0; base < s.channels; base += cut.across * V) {
        const int64_t c = base + column * V;
        const bool mine = c < s.channels && static_cast<int>(threadIdx.x) < rows * cut.across;
        Pair total[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) total[k] = {0.0, 0.0};
        if (mine) {
            const Channels<V> channels = channels_of<T, V>(b, s, c, cut.group_channels);
            #pragma unroll 1
            for (int64_t p = s.begin + threadIdx.x / cut.across; p < s.end; p += rows) {
                const Gradients<V> g = gradients_at<T, V>(b, channels, s.start + p * b.channels + c);
                #pragma unroll
                for (int k = 0; k < V; ++k) total[k] = total[k] + Pair{g.dz.v[k], g.dz.v[k] * g.xhat.v[k]};
            }
        }
        if (static_cast<int>(threadIdx.x) < rows * cut.across) {
            #pragma unroll
            for (int k = 0; k < V; ++k) of_lane[threadIdx.x * V + k] = total[k];
        }
        __syncthreads();
        // One thread per channel sums its rows, writes the sum, and leaves it in row 0, weighted.
        const int width = cut.across * V;
        for (int e = threadIdx.x; e < width && base + e < s.channels; e += kSlabThreads) {
            Pair sum = of_lane[e];
            for (int row = 1; row < rows; ++row) sum = sum + of_lane[row * width + e];
            const int64_t channel = s.first_channel + base + e;
            of_channel[piece * b.channels + channel] = {static_cast<float>(sum.a), static_cast<float>(sum.b)};
            const double weight = parameter<T>(b.weight, b.param_dtype, channel, 1.0f);
            of_lane[e] = {weight * sum.a, weight * sum.b};
            for (int row = 1; row < rows; ++row) of_lane[row * width + e] = {0.0, 0.0};
        }
        add_to_groups<V>(cut, s, base, of_lane, of_tile);
    }
    for (int64_t g = threadIdx.x; g < s.groups; g += kSlabThreads) {
        of_group[piece * b.groups + s.first_group + g] = of_tile[g];
    }
}

// Computes dx and dresidual of slabs in the first `blocks` blocks, in reverse order. The other blocks compute dweight
// and dbias.
template <typename T, int V>
__global__ void __launch_bounds__(kSlabThreads) slab_gradients(const Backward b, const Slabs cut, const int64_t blocks,
                                                               const Pieces pieces, const Pair* of_group) {
    await_earlier();
    if (blockIdx.x >= blocks) {
        add_planes<T>(b, pieces, blockIdx.x - blocks);
        return;
    }
    __shared__ GroupTerms terms[kTileGroups];
    const Slab s = slab_of(cut, blocks - 1 - blockIdx.x, b.groups, b.spatial);
    for (int64_t g = threadIdx.x / kWarp; g < s.groups; g += kSlabThreads / kWarp) {
        const Pair* parts = of_group + s.sample * cut.slabs * b.groups + s.first_group + g;
        Pair total = {0.0, 0.0};
        for (int64_t i = threadIdx.x % kWarp; i < cut.slabs; i += kWarp) total = total + parts[i * b.groups];
        total = warp_sum(total, kWarp);
        const float rstd = b.rstd[s.sample * b.groups + s.first_group + g];
        if (threadIdx.x % kWarp == 0) terms[g] = terms_of(total, rstd, cut.group_channels * b.spatial);
    }
    __syncthreads();
    const int rows = kSlabThreads / cut.across;
    if (static_cast<int>(threadIdx.x) >= rows * cut.across) return;
    for (int64_t c = threadIdx.x % cut.across * V; c < s.channels; c += cut.across * V) {
        const Channels<V> channels = channels_of<T, V>(b, s, c, cut.group_channels);
        GroupTerms term[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) term[k] = terms[quotient(c + k, cut.group_channels)];
        #pragma unroll 1
        for (int64_t p = s.begin + threadIdx.x / cut.across; p < s.end; p += rows) {
            const int64_t at = s.start + p * b.channels + c;
            const Gradients<V> g = gradients_at<T, V>(b, channels, at);
            Pack<T, V> dx;
            Pack<T, V> dresidual;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const Channel& of = channels.of[k];
                dx.v[k] = from_float<T>(
                    fmaf(g.dz.v[k], of.rstd * of.weight, fmaf(g.xhat.v[k], term[k].slope, term[k].level)));
                dresidual.v[k] = from_float<T>(g.dz.v[k]);
            }
            if (b.dx != nullptr) *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(b.dx) + at) = dx;
            if (b.dresidual != nullptr) *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(b.dresidual) + at) = dresidual;
        }
    }
}

}  // namespace kernelwright::group_norm
