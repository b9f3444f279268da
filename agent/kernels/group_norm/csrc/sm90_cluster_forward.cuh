// Forward of groups that a cluster holds (sm90_cluster.cuh).
#pragma once

#include "portable_forward.cuh"
#include "sm90_cluster.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kRunPacks = 8;  // packs of a thread in one Run of its sums

// Distribution of a row over the blocks of a cluster.
struct ForwardShare {
    int blocks;
    int threads;
    int packs;                 // packs per block; the last block has the remainder
    int spatial;
    int groups, group_channels;
    int channels;              // maximum channels whose parameters a block needs
    int step, rest;            // channels and positions from a thread's pack to its next one
    double inverse;            // 1 / elements of a row
    Divisor<int> by_spatial{1}, by_groups{1};
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

// Stores y of one end element of a row; `row` is the offset of the row's first element in the tensor.
template <typename T>
__device__ __forceinline__ void store_end(const Forward& f, const Moments& m, int64_t row, int element, int channel) {
    const Line line = line_of(m, affine_here<T>(f, channel));
    const int64_t at = row + element;
    Pack<float, 1> z = {fmaf(to_float(static_cast<const T*>(f.x)[at]) - m.mean, line.scale, line.level)};
    if (f.residual != nullptr) z.v[0] += to_float(static_cast<const T*>(f.residual)[at]);
    if (f.act != kNone) z = activate_pack<1>(f.act, z);
    static_cast<T*>(f.y)[at] = from_float<T>(z.v[0]);
}

template <typename T>
__global__ void __launch_bounds__(kMaxClusterThreads, 4)
    cluster_forward(const __grid_constant__ Forward f, const __grid_constant__ ForwardShare share) {
    let_next_begin();
    constexpr int V = 16 / sizeof(T);
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Arrivals arrivals;
    __shared__ Mailbox box;
    const int row = cluster_number();
    const int length = share.group_channels * share.spatial;
    const int64_t start = int64_t{row} * length;
    const T* x = static_cast<const T*>(f.x) + start;
    Holding held = {cluster_rank() * share.packs, 0, head_of<T, V>(x)};
    held.count = min(share.packs, (length - held.head) / V - held.begin);
    const int end = end_of<V>(end_taker(cluster_rank()), held.head, length);
    Raw* packs = reinterpret_cast<Raw*>(shared);
    Affine* affine = reinterpret_cast<Affine*>(packs + share.packs);
    const int group_channel = (row - quotient(row, share.by_groups) * share.groups) * share.group_channels;
    const int first_channel = quotient(held.element<V>(0), share.by_spatial);
    const int channels = min(share.channels, share.group_channels - first_channel);
    prepare(arrivals, box, held.count, share.blocks, [] {});
    await_earlier();
    begin_loads<T, 1>({x}, {packs}, held, f, group_channel + first_channel, channels, affine, arrivals,
                      false);
    __syncwarp();
    cluster_wait();

    Pair mine = sum_held<T>(packs, held.count, arrivals.tiles);
    if (end >= 0) {
        const double value = to_float(x[end]);
        mine = mine + Pair{value, value * value};
    }
    const Pair total = cluster_sum(mine, {0, share.blocks, cluster_rank()}, box);
    const Moments m = moments_of(total, share.inverse, f.eps);
    if (threadIdx.x == 0 && held.begin == 0) keep_moments(f, row, m);
    if (end >= 0) store_end<T>(f, m, start, end, group_channel + end / share.spatial);
    barrier_wait(&arrivals.parameters, 0);

    const int element = held.element<V>(threadIdx.x);
    int channel = quotient(element, share.by_spatial);
    int position = element - channel * share.spatial;
    channel -= first_channel;
    const auto pack_at = [&](const void* tensor) {
        return reinterpret_cast<const Pack<T, V>*>(static_cast<const T*>(tensor) + start + held.element<V>(0));
    };
    const Pack<T, V>* residuals = f.residual == nullptr ? nullptr : pack_at(f.residual);
    Pack<T, V>* ys = const_cast<Pack<T, V>*>(pack_at(f.y));
    #pragma unroll 1  // a pack has enough independent lanes; code that runs once dominates small calls
    for (int i = threadIdx.x; i < held.count; i += blockDim.x) {
        Pack<T, V> pack = elements_of<T>(packs[i]);
        Pack<T, V> residual;
        if (residuals != nullptr) residual = residuals[i];
        const Line line = line_of(m, affine[channel]);
        const int left = share.spatial - position;  // lanes from `left` on belong to the next channel
        Pack<float, V> z;
        if (!some_end_in_next(left < V)) {
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
        if (residuals != nullptr) {
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
        }
        if (f.act != kNone) z = activated<T, V>(f.act, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
        ys[i] = pack;
        channel += share.step;
        position += share.rest;
        if (position >= share.spatial) {
            position -= share.spatial;
            ++channel;
        }
    }
}

}  // namespace kernelwright::group_norm::sm90
