// Backward of groups that are too large for one block, with one read of x and dy and one write of dx (sm90_stream.cuh).
//
// A slot holds a chunk of x and the same one of dy, which lies in one channel. Its sums are kept for dweight and dbias,
// which channel_gradients adds up: 8 bytes for each 2 KB of x.
#pragma once

#include "portable_backward.cuh"
#include "sm90_activation.cuh"
#include "sm90_stream.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kPairBytes = kSlotBytes / 2;
constexpr int kBackwardLoads = kPairBytes / 16 / kWarp;

// What the row and the channel of a chunk come with. Asked for before the chunk is there.
struct Facts {
    float mean, rstd;
    Affine affine;
};

template <typename T>
__device__ __forceinline__ Facts facts_of(const Backward& b, const Share& share, const Cursor& at) {
    const int groups = static_cast<int>(b.groups);
    const int group_channels = static_cast<int>(b.channels) / groups;
    const int channel = at.row % groups * group_channels + at.chunk / (share.chunks / group_channels);
    return {b.mean[at.row], b.rstd[at.row],
            {parameter<T>(b.weight, b.param_dtype, channel, 1.0f), parameter<T>(b.bias, b.param_dtype, channel, 0.0f)}};
}

// dz of a pack, and its xhat.
template <typename T, int V>
__device__ __forceinline__ Pack<float, V> gradient_before(int64_t act, const Raw& x, const Raw& dy, const Facts& facts,
                                                          Pack<float, V>& xhat) {
    const Pack<T, V> values = elements_of<T>(x);
    const Pack<T, V> gradients = elements_of<T>(dy);
    Pack<float, V> dz;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        xhat.v[k] = (to_float(values.v[k]) - facts.mean) * facts.rstd;
        dz.v[k] = to_float(gradients.v[k]);
    }
    if (act == kNone) return dz;
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = fmaf(xhat.v[k], facts.affine.weight, facts.affine.bias);
    z = slopes<T, V>(act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] *= z.v[k];
    return dz;
}

template <typename T>
__device__ __forceinline__ float gradient_sums(int64_t act, const Raw (&xs)[kBackwardLoads],
                                               const Raw (&dys)[kBackwardLoads], const Facts& facts) {
    constexpr int V = 16 / sizeof(T);
    float db = 0.0f;
    float ds = 0.0f;
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        Pack<float, V> xhat;
        const auto dz = gradient_before<T, V>(act, xs[j], dys[j], facts, xhat);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            db += dz.v[k];
            ds = fmaf(dz.v[k], xhat.v[k], ds);
        }
    }
    return halves_sum(db, ds, kWarp);
}

template <typename T>
__device__ __forceinline__ void store_gradient(int64_t act, unsigned char* dx, const Raw (&xs)[kBackwardLoads],
                                               const Raw (&dys)[kBackwardLoads], const Facts& facts,
                                               const GroupTerms& g) {
    constexpr int V = 16 / sizeof(T);
    const float scale = facts.rstd * facts.affine.weight;
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        Pack<float, V> xhat;
        const auto dz = gradient_before<T, V>(act, xs[j], dys[j], facts, xhat);
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) made.v[k] = from_float<T>(fmaf(dz.v[k], scale, fmaf(xhat.v[k], g.slope, g.level)));
        *reinterpret_cast<Raw*>(dx + (j * kWarp + threadIdx.x % kWarp) * 16) = reinterpret_cast<const Raw&>(made);
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
            const float mine = gradient_sums<T>(b.act, xs, dys, facts);
            const bool is_db = lane == 0;
            const bool is_ds = lane == kWarp / 2;
            Sums& of_chunk = sums[int64_t{at.row} * share.chunks + at.chunk];
            if (is_db) of_chunk.db = mine;
            if (is_ds) of_chunk.ds = mine;
            const double weighted = static_cast<double>(facts.affine.weight) * mine;
            return Pair{is_db ? weighted : 0.0, is_ds ? weighted : 0.0};
        });
    } else {
        for (Cursor at = first_chunk(share, warp - kFirstStorer); at.row < share.rows; advance(at, share, kStorers)) {
            const Facts facts = facts_of<T>(b, share, at);
            Raw xs[kBackwardLoads], dys[kBackwardLoads];
            take_pair(ring, at, xs, dys);
            unsigned char* dx = static_cast<unsigned char*>(b.dx) + at.row * share.bytes + int64_t{at.chunk} * kPairBytes;
            store_gradient<T>(b.act, dx, xs, dys, facts, answer_for(board, at.turn));
        }
    }
}

// dweight and dbias from `pieces` sums for each plane, a team of threads per channel.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_gradients(const Backward b, const Sums* sums, const int pieces, const int team) {
    await_earlier();
    const int channel = blockIdx.x * (kChannelThreads / team) + threadIdx.x / team;
    const int channels = static_cast<int>(b.channels);
    const int samples = static_cast<int>(b.n);
    // Lanes go from piece to piece and from sample to sample.
    const int step = team / pieces, rest = team - step * pieces;
    int sample = threadIdx.x % team / pieces;
    int piece = threadIdx.x % team - sample * pieces;
    Pair total = {0.0, 0.0};
    if (channel < channels) {
        while (sample < samples) {
            const Sums s = sums[(int64_t{sample} * channels + channel) * pieces + piece];
            total = total + Pair{s.db, s.ds};
            sample += step;
            piece += rest;
            if (piece >= pieces) {
                piece -= pieces;
                ++sample;
            }
        }
    }
    total = team_sum(total, team);
    if (threadIdx.x % team != 0 || channel >= channels) return;
    if (b.dbias != nullptr) set_parameter<T>(b.dbias, b.param_dtype, channel, static_cast<float>(total.a));
    if (b.dweight != nullptr) set_parameter<T>(b.dweight, b.param_dtype, channel, static_cast<float>(total.b));
}

}  // namespace kernelwright::group_norm::sm90
