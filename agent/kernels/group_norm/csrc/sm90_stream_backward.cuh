// Backward of groups that exceed a block, with one read of x and dy and one write of dx (sm90_stream.cuh).
//
// A slot holds a chunk of x and the same chunk of dy. Planes are at least as long as a chunk, so that a chunk spans at
// most two channels. Its sums of both channels are kept for dweight and dbias, which channel_gradients adds: up to 16
// bytes for each 2 KB of x.
#pragma once

#include "portable_backward.cuh"
#include "sm90_activation.cuh"
#include "sm90_stream.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kBackwardSummers = 8;  // warps that sum; they compute as much as the storers
constexpr int kPairBytes = kSlotBytes / 2;
constexpr int kBackwardLoads = kPairBytes / 16 / kWarp;

// Values of a chunk's row and channels, loaded before the chunk arrives.
struct Facts {
    float mean, rstd;
    Affine here, next;
    int left;   // elements from `left` on belong to the next channel
    int count;  // number of elements of the chunk
};

template <typename T>
__device__ __forceinline__ Facts facts_of(const Backward& b, const Share& share, const Cursor& at) {
    constexpr int kElements = kPairBytes / sizeof(T);
    const int group_channel = share.first_channel(at.row);
    const int first = at.chunk * kElements;
    const int channel = quotient(first, share.by_spatial);
    const auto affine_at = [&](int place) {
        return widened<T>(stored_affine<T>(b.weight, b.bias, b.param_dtype, group_channel + place));
    };
    Facts facts = {b.mean[at.row], b.rstd[at.row], affine_at(channel)};
    facts.left = (channel + 1) * share.spatial - first;
    facts.count = bytes_of(share, at.chunk, kPairBytes) / static_cast<int>(sizeof(T));
    facts.next = facts.left < facts.count ? affine_at(channel + 1) : facts.here;
    return facts;
}

// Returns true if the chunk is whole and in a single channel.
template <typename T>
__device__ __forceinline__ bool is_uncut(const Facts& facts) {
    return facts.left >= static_cast<int>(kPairBytes / sizeof(T)) && facts.count == static_cast<int>(kPairBytes / sizeof(T));
}

// Returns dz and x - mean of the pack whose lane 0 is element `first` of a chunk. CUT: the chunk is partial or in two
// channels.
template <typename T, int V, bool CUT>
__device__ __forceinline__ Pack<float, V> gradient_before(int64_t act, const Raw& x, const Raw& dy, const Facts& facts,
                                                          int first, Pack<float, V>& centred) {
    const Pack<T, V> values = elements_of<T>(x);
    const Pack<T, V> gradients = elements_of<T>(dy);
    Pack<float, V> dz;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        centred.v[k] = to_float(values.v[k]) - facts.mean;
        dz.v[k] = to_float(gradients.v[k]);
    }
    if (act == kNone) return dz;
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const bool is_next = CUT && first + k >= facts.left;
        z.v[k] = fmaf(centred.v[k], facts.rstd * (is_next ? facts.next.weight : facts.here.weight),
                      is_next ? facts.next.bias : facts.here.bias);
    }
    z = slopes<T, V>(act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) dz.v[k] *= z.v[k];
    return dz;
}

// Returns the place in the chunk of the first element of the lane's pack j.
template <int V>
__device__ __forceinline__ int first_of(int j) {
    return (j * kWarp + static_cast<int>(threadIdx.x) % kWarp) * V;
}

// Sums of each channel: db in the lower half of a warp, ds in the upper.
struct ChunkSums {
    float here, next;
};

template <typename T, bool CUT>
__device__ __forceinline__ ChunkSums gradient_sums(int64_t act, const Raw (&xs)[kBackwardLoads],
                                                   const Raw (&dys)[kBackwardLoads], const Facts& facts) {
    constexpr int V = 16 / sizeof(T);
    Sums here = {0.0f, 0.0f};
    Sums next = {0.0f, 0.0f};
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        const int first = first_of<V>(j);
        if (CUT && first >= facts.count) break;
        Pack<float, V> centred;
        const auto dz = gradient_before<T, V, CUT>(act, xs[j], dys[j], facts, first, centred);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float ds = dz.v[k] * centred.v[k];
            const bool is_next = CUT && first + k >= facts.left;
            here.db += is_next ? 0.0f : dz.v[k];
            here.ds += is_next ? 0.0f : ds;
            next.db += is_next ? dz.v[k] : 0.0f;
            next.ds += is_next ? ds : 0.0f;
        }
    }
    const auto over_warp = [&](const Sums& sums) { return halves_sum(sums.db, sums.ds * facts.rstd, kWarp); };
    return {over_warp(here), CUT ? over_warp(next) : 0.0f};
}

template <typename T, bool CUT>
__device__ __forceinline__ void store_gradient(int64_t act, unsigned char* dx, const Raw (&xs)[kBackwardLoads],
                                               const Raw (&dys)[kBackwardLoads], const Facts& facts,
                                               const GroupTerms& g) {  // the slope of `g` applies to x - mean
    constexpr int V = 16 / sizeof(T);
    #pragma unroll
    for (int j = 0; j < kBackwardLoads; ++j) {
        const int first = first_of<V>(j);
        if (CUT && first >= facts.count) break;
        Pack<float, V> centred;
        const auto dz = gradient_before<T, V, CUT>(act, xs[j], dys[j], facts, first, centred);
        Pack<T, V> made;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float weight = CUT && first + k >= facts.left ? facts.next.weight : facts.here.weight;
            made.v[k] = from_float<T>(fmaf(dz.v[k], facts.rstd * weight, fmaf(centred.v[k], g.slope, g.level)));
        }
        *reinterpret_cast<Raw*>(dx + first * sizeof(T)) = reinterpret_cast<const Raw&>(made);
    }
}

__device__ __forceinline__ void take_pair(const Ring& ring, const Cursor& at, Raw (&xs)[kBackwardLoads],
                                          Raw (&dys)[kBackwardLoads]) {
    barrier_wait(ring.full + at.slot, at.parity);
    read_chunk(ring.slots + at.slot * kSlotBytes, xs);
    read_chunk(ring.slots + at.slot * kSlotBytes + kPairBytes, dys);
    slot_read(ring, at);
}

// Streams chunks and writes sums[(row * chunks + chunk) * 2]; the next entry is for the chunk's second channel.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    stream_backward(const __grid_constant__ Backward b, const __grid_constant__ Share share, double* partials, Sums* sums) {
    constexpr int kFirstStorer = kFirstSummer + kBackwardSummers;
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Board<GroupTerms, kBackwardSummers> board;
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
            const double rstd = b.rstd[row];
            const double inverse = rstd * share.inverse;
            return GroupTerms{static_cast<float>(-total.b * inverse * rstd), static_cast<float>(-total.a * inverse)};
        });
    } else if (warp < kFirstStorer) {
        sum_chunks(share, board, warp - kFirstSummer, [&](const Cursor& at) {
            const Facts facts = facts_of<T>(b, share, at);
            Raw xs[kBackwardLoads], dys[kBackwardLoads];
            take_pair(ring, at, xs, dys);
            const bool uncut = is_uncut<T>(facts);
            const ChunkSums mine = uncut ? gradient_sums<T, false>(b.act, xs, dys, facts)
                                         : gradient_sums<T, true>(b.act, xs, dys, facts);
            const bool is_db = lane == 0;
            const bool is_ds = lane == kWarp / 2;
            Sums* of_chunk = sums + (int64_t{at.row} * share.chunks + at.chunk) * 2;
            if (is_db) of_chunk[0].db = mine.here, of_chunk[1].db = mine.next;
            if (is_ds) of_chunk[0].ds = mine.here, of_chunk[1].ds = mine.next;
            const double weighted = fma(static_cast<double>(facts.here.weight), static_cast<double>(mine.here),
                                        static_cast<double>(facts.next.weight) * mine.next);
            return Pair{is_db ? weighted : 0.0, is_ds ? weighted : 0.0};
        });
    } else {
        for (Cursor at = first_chunk(share, warp - kFirstStorer); at.row < share.rows; advance(at, share, kWorkers - kBackwardSummers)) {
            const Facts facts = facts_of<T>(b, share, at);
            Raw xs[kBackwardLoads], dys[kBackwardLoads];
            take_pair(ring, at, xs, dys);
            unsigned char* dx = static_cast<unsigned char*>(b.dx) + at.row * share.bytes + int64_t{at.chunk} * kPairBytes;
            const GroupTerms terms = answer_for(board, at.turn);
            if (is_uncut<T>(facts)) {
                store_gradient<T, false>(b.act, dx, xs, dys, facts, terms);
            } else {
                store_gradient<T, true>(b.act, dx, xs, dys, facts, terms);
            }
        }
    }
}

// Layout of the sums of planes, row after row. A row is cut every `part` elements, regardless of where its planes
// (`plane` elements each) end. With `kept` == 2 a part has a second sum, for the second of two planes in it.
struct PlaneParts {
    int plane, part;
    int of_row;   // number of parts of a row
    int kept;     // sums per part: 1 or 2
    int most;     // maximum number of parts of a plane
    int group_channels;
};

// Computes dweight and dbias with a team of threads per channel.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_gradients(const Backward b, const Sums* sums, const PlaneParts parts, const int team) {
    // Computes all values that do not need the sums while the previous launch finishes.
    const int channel = blockIdx.x * (kChannelThreads / team) + threadIdx.x / team;
    const int channels = static_cast<int>(b.channels);
    const int samples = static_cast<int>(b.n);
    const int group = channel / parts.group_channels;
    const int begin = (channel - group * parts.group_channels) * parts.plane;
    const int first = begin / parts.part;
    const int count = (begin + parts.plane - 1) / parts.part - first + 1;
    const int second = first * parts.part < begin ? 1 : 0;  // index of the plane's sum among the first part's sums
    const int64_t sample_parts = b.groups * parts.of_row;
    const int64_t before = int64_t{group} * parts.of_row + first;
    // The lanes stride over parts and samples.
    const int step = team / parts.most, rest = team - step * parts.most;
    int sample = threadIdx.x % team / parts.most;
    int i = threadIdx.x % team - sample * parts.most;
    await_earlier();
    Pair total = {0.0, 0.0};
    if (channel < channels) {
        while (sample < samples) {
            if (i < count) {
                const Sums s = sums[(sample * sample_parts + before + i) * parts.kept + (i == 0 ? second : 0)];
                total = total + Pair{s.db, s.ds};
            }
            sample += step;
            i += rest;
            if (i >= parts.most) {
                i -= parts.most;
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
