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
    int packs;                 // of a block; the last has what is left
    int spatial;
    int groups, group_channels;
    int channels;              // whose parameters a block needs, at most
    int step, rest;            // channels and positions from a thread's pack to its next
    double inverse;            // 1 / elements of a row
};

template <typename T>
__device__ __forceinline__ Pair sum_held(const Raw* packs, const Holding& held, uint64_t* arrived) {
    constexpr int V = 16 / sizeof(T);
    const int threads = blockDim.x;
    Pair total = {0.0, 0.0};
    for (int i = threadIdx.x; i < held.count;) {
        Run run;
        #pragma unroll
        for (int j = 0; j < kRunPacks; ++j, i += threads, ++arrived) {
            if (i >= held.count) break;
            barrier_wait(arrived, 0);
            const auto pack = elements_of<T>(packs[i]);
            const int element = held.element<V>(i);
            if (j == 0) run.start(to_float(element < 0 ? pack.v[V - 1] : pack.v[0]));
            if (whole<V>(element, held.length)) {
                #pragma unroll
                for (const T value : pack.v) run.add(to_float(value));
            } else {
                #pragma unroll
                for (int k = 0; k < V; ++k) {
                    if (inside(element + k, held.length)) run.add(to_float(pack.v[k]));
                }
            }
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
    const int length = share.group_channels * share.spatial;
    const int64_t start = int64_t{row} * length;
    const T* x = static_cast<const T*>(f.x) + start;
    Holding held = {cluster_rank() * share.packs, 0, lead_of<T, V>(x), length};
    held.count = min(share.packs, (held.lead + length + V - 1) / V - held.begin);
    Raw* packs = reinterpret_cast<Raw*>(shared);
    Affine* affine = reinterpret_cast<Affine*>(packs + share.packs);
    const int first_channel = max(held.element<V>(0), 0) / share.spatial;
    const int channels = min(share.channels, share.group_channels - first_channel);
    begin_loads<T, 1>({x}, {packs}, held, f, row % share.groups * share.group_channels + first_channel, channels,
                      affine, arrivals);
    __syncwarp();
    cluster_arrive();

    if (held.cut<V>()) barrier_wait(&arrivals.parameters, 0);
    const Pair total = cluster_sum(sum_held<T>(packs, held, arrivals.tiles), share.blocks);
    const Moments m = moments_of(total, share.inverse, f.eps);
    if (threadIdx.x == 0 && held.begin == 0) keep_moments(f, row, m);
    barrier_wait(&arrivals.parameters, 0);

    const int element = held.element<V>(threadIdx.x);
    Place<int> at = {max(element, 0) / share.spatial, 0};
    at.position = element - at.channel * share.spatial;
    at.channel -= first_channel;
    #pragma unroll 2
    for (int i = threadIdx.x; i < held.count; i += blockDim.x) {
        const int first = held.element<V>(i);
        Pack<T, V> pack = elements_of<T>(packs[i]);
        Pack<T, V> residual;
        if (f.residual != nullptr) {
            residual = load_pack<T, V>(static_cast<const T*>(f.residual) + start, first, length);
        }
        const Line line = line_of(m, affine[at.channel]);
        const int left = share.spatial - at.position;  // lanes from here on are the next channel's
        Pack<float, V> z;
        if (left >= V) {
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, line.scale, line.level);
        } else {
            const Line next = line_of(m, affine[min(at.channel + 1, channels - 1)]);
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
        store_pack<T, V>(static_cast<T*>(f.y) + start, first, length, pack);
        at.advance(share.step, share.rest, share.spatial);
    }
}

}  // namespace kernelwright::group_norm::sm90
