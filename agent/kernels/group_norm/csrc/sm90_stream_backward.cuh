// Backward of groups that are too large for one block, with one read of x and dy and one write of dx (sm90_stream.cuh).
//
// A slot holds a chunk of x and the same one of dy, which lies in one channel. Its sums are kept for dweight and dbias,
// which channel_gradients adds up: 8 bytes for each 2 KB of x.
#pragma once

#include "portable_backward.cuh"
#include "sm90_stream.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kPairBytes = kSlotBytes / 2;
constexpr int kBackwardLoads = kPairBytes / 16 / kWarp;

// What the row and the channel of a chunk come with. Asked for before the chunk is there.
struct Facts {
    float mean, rstd, weight;
};

template <typename T>
__device__ __forceinline__ Facts facts_of(const Backward& b, const Share& share, const Cursor& at) {
    const int groups = static_cast<int>(b.groups);
    const int group_channels = static_cast<int>(b.channels) / groups;
    const int channel = at.row % groups * group_channels + at.chunk / (share.chunks / group_channels);
    return {b.mean[at.row], b.rstd[at.row], parameter<T>(b.weight, b.param_dtype, channel, 1.0f)};
}

template <typename T>
__device__ __forceinline__ float gradient_sums(const Raw (&xs)[kBackwardLoads], const Raw (&dys)[kBackwardLoads],
                                               const Facts& facts) {
    constexpr int V = 16 / sizeof(T);
    float db = 0.0f;
    float ds = 0.0f;
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        const Pack<T, V> x = elements_of<T>(xs[j]);
        const Pack<T, V> dy = elements_of<T>(dys[j]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float dz = to_float(dy.v[k]);
            db += dz;
            ds = fmaf(dz, (to_float(x.v[k]) - facts.mean) * facts.rstd, ds);
        }
    }
    return halves_sum(db, ds, kWarp);
}

template <typename T>
__device__ __forceinline__ void store_gradient(unsigned char* dx, const Raw (&xs)[kBackwardLoads],
                                               const Raw (&dys)[kBackwardLoads], const Facts& facts,
                                               const GroupTerms& g) {
    constexpr int V = 16 / sizeof(T);
    const float scale = facts.rstd * facts.weight;
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        Pack<T, V> x = elements_of<T>(xs[j]);
        const Pack<T, V> dy = elements_of<T>(dys[j]);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float xhat = (to_float(x.v[k]) - facts.mean) * facts.rstd;
            x.v[k] = from_float<T>(fmaf(to_float(dy.v[k]), scale, fmaf(xhat, g.slope, g.level)));
        }
        *reinterpret_cast<Raw*>(dx + (j * kWarp + threadIdx.x % kWarp) * 16) = reinterpret_cast<const Raw&>(x);
    }
}

__device__ __forceinline__ void take_pair(const Ring& ring, const Cursor& at, Raw (&xs)[kBackwardLoads],
                                          Raw (&dys)[kBackwardLoads]) {
    barrier_wait(ring.full + at.slot, at.parity);
    read_chunk(ring.slots + at.slot * kSlotBytes, xs);
    read_chunk(ring.slots + at.slot * kSlotBytes + kPairBytes, dys);
    slot_read(ring, at);
}

// sums[row * chunks + chunk].
template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    stream_backward(const __grid_constant__ Backward b, const __grid_constant__ Share share, double* partials, Sums* sums) {
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Board<GroupTerms> board;
    const Ring ring = begin(shared, board);
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;

    if (warp == kLoader) {
        const void* const tensors[] = {b.x, b.dy};
        if (lane == 0) load_chunks<2>(share, ring, tensors);
    } else if (warp == kPublisher) {
        publish_sums(share, board, partials);
    } else if (warp == kCollector) {
        collect_sums(share, board, partials, [&](int row, Pair total) {
            const double inverse = b.rstd[row] * share.inverse;
            return GroupTerms{static_cast<float>(-total.b * inverse), static_cast<float>(-total.a * inverse)};
        });
    } else if (warp < kFirstStorer) {
        sum_chunks(share, board, warp - kFirstSummer, [&](const Cursor& at) {
            const Facts facts = facts_of<T>(b, share, at);
            Raw xs[kBackwardLoads], dys[kBackwardLoads];
            take_pair(ring, at, xs, dys);
            const float mine = gradient_sums<T>(xs, dys, facts);
            const bool is_db = lane == 0;
            const bool is_ds = lane == kWarp / 2;
            Sums& of_chunk = sums[int64_t{at.row} * share.chunks + at.chunk];
            if (is_db) of_chunk.db = mine;
            if (is_ds) of_chunk.ds = mine;
            const double weighted = static_cast<double>(facts.weight) * mine;
            return Pair{is_db ? weighted : 0.0, is_ds ? weighted : 0.0};
        });
    } else {
        for (Cursor at = first_chunk(share, warp - kFirstStorer); at.row < share.rows; advance(at, share, kStorers)) {
            const Facts facts = facts_of<T>(b, share, at);
            Raw xs[kBackwardLoads], dys[kBackwardLoads];
            take_pair(ring, at, xs, dys);
            unsigned char* dx = static_cast<unsigned char*>(b.dx) + at.row * share.bytes + int64_t{at.chunk} * kPairBytes;
            store_gradient<T>(dx, xs, dys, facts, answer_for(board, at.turn));
        }
    }
}

// dweight and dbias of one channel per block, from `pieces` sums for each plane.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads) channel_gradients(const Backward b, const Sums* sums, const int pieces) {
    const int64_t channel = blockIdx.x;
    Pair total = {0.0, 0.0};
    for (int64_t i = threadIdx.x; i < b.n * pieces; i += kChannelThreads) {
        const auto [sample, piece] = split(i, pieces);
        const Sums s = sums[(sample * b.channels + channel) * pieces + piece];
        total = total + Pair{s.db, s.ds};
    }
    total = team_sum(total, kChannelThreads);
    if (threadIdx.x != 0) return;
    if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, channel, static_cast<float>(total.a));
    if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, channel, static_cast<float>(total.b));
}

}  // namespace kernelwright::group_norm::sm90
