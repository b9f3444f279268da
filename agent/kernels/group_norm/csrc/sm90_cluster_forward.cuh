// Forward of groups that a cluster holds (sm90_cluster.cuh).
#pragma once

#include "portable_forward.cuh"
#include "sm90_cluster.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kRunPacks = 8;  // of a thread, in one run of its sums

// How a row is shared out among the blocks of a cluster.
struct ForwardShare {
    int blocks;
    int threads;
    int row_packs;
    int packs;                 // of a block; the last has what is left
    int spatial;
    int groups, group_channels;
    int channels;              // whose parameters a block needs, at most
    int step, rest;            // channels and positions from a thread's pack to its next
    double inverse;            // 1 / elements of a row
};

template <typename T>
__device__ __forceinline__ Pair sum_held(const Raw* held, int count, uint64_t* arrived) {
    const int threads = blockDim.x;
    Pair total = {0.0, 0.0};
    for (int i = threadIdx.x; i < count;) {
        Run run;
        #pragma unroll
        for (int j = 0; j < kRunPacks; ++j, i += threads, ++arrived) {
            if (i >= count) break;
            barrier_wait(arrived, 0);
            const auto pack = elements_of<T>(held[i]);
            if (j == 0) run.start(to_float(pack.v[0]));
            #pragma unroll
            for (const T value : pack.v) run.add(to_float(value));
        }
        total = total + run.total();
    }
    return total;
}

template <typename T>
__global__ void __launch_bounds__(kMaxClusterThreads)
    cluster_forward(const __grid_constant__ Forward f, const __grid_constant__ ForwardShare share) {
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Arrivals arrivals;
    const int row = cluster_number();
    const int begin = cluster_rank() * share.packs;
    const int count = min(share.packs, share.row_packs - begin);
    const int64_t start = int64_t{row} * share.row_packs + begin;  // in packs, as `begin` and `count`
    Raw* held = reinterpret_cast<Raw*>(shared);
    Affine* affine = reinterpret_cast<Affine*>(held + share.packs);
    const int first_channel = begin * V / share.spatial;
    const int channels = min(share.channels, share.group_channels - first_channel);
    begin_loads<T, 1>({static_cast<const Raw*>(f.x) + start}, {held}, count, f,
                      row % share.groups * share.group_channels + first_channel, channels, affine, arrivals);
    __syncwarp();
    cluster_arrive();

    const Pair total = cluster_sum(sum_held<T>(held, count, arrivals.tiles), share.blocks);
    const Moments m = moments_of(total, share.inverse, f.eps);
    if (threadIdx.x == 0 && begin == 0) keep_moments(f, row, m);
    barrier_wait(&arrivals.parameters, 0);

    const int element = (begin + static_cast<int>(threadIdx.x)) * V;
    int channel = element / share.spatial;
    int position = element - channel * share.spatial;
    channel -= first_channel;
    #pragma unroll 2
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        Pack<T, V> pack = elements_of<T>(held[i]);
        Pack<T, V> residual;
        if (f.residual != nullptr) residual = static_cast<const Pack<T, V>*>(f.residual)[start + i];
        const Line line = line_of(m, affine[channel]);
        const int left = share.spatial - position;  // lanes from here on are the next channel's
        Pack<float, V> z;
        if (left >= V) {
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, line.scale, line.level);
        } else {
            const Line next = line_of(m, affine[min(channel + 1, channels - 1)]);
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const bool here = k < left;
                z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, here ? line.scale : next.scale, here ? line.level : next.level);
            }
        }
        if (f.residual != nullptr) {
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
        }
        if (f.act != kNone) z = activated<T, V>(f.act, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
        static_cast<Pack<T, V>*>(f.y)[start + i] = pack;
        channel += share.step;
        position += share.rest;
        if (position >= share.spatial) {
            position -= share.spatial;
            ++channel;
        }
    }
}

}  // namespace kernelwright::group_norm::sm90
