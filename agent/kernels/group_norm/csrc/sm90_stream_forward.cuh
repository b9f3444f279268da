// Forward of groups that exceed a block (sm90_stream.cuh).
#pragma once

#include "portable_forward.cuh"
#include "sm90_activation.cuh"
#include "sm90_stream.cuh"

namespace kernelwright::group_norm::sm90 {

constexpr int kForwardSummers = 4;
constexpr int kForwardLoads = kSlotBytes / 16 / kWarp;

template <typename T>
__device__ __forceinline__ Pair moments_sum(const Raw (&packs)[kForwardLoads], int bytes) {
    Run run;
    run.start(to_float(elements_of<T>(packs[0]).v[0]));
    #pragma unroll
    for (int j = 0; j < kForwardLoads; ++j) {
        if (static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16 >= bytes) break;
        const auto pack = elements_of<T>(packs[j]);
        #pragma unroll
        for (const T value : pack.v) run.add(to_float(value));
    }
    return run.total();
}

// Location of a chunk, and the parameters of the channel in which it begins. Loaded before the chunk arrives.
struct ChunkPlace {
    int first_channel;  // index of the channel in the group
    int element;        // index of the chunk's first element in the row
    bool is_uncut;      // true if the chunk lies in one channel
    Affine affine;
};

template <typename T>
__device__ __forceinline__ ChunkPlace place_of(const Forward& f, const Share& share, const Cursor& at) {
    constexpr int kElements = kSlotBytes / sizeof(T);
    const int first_channel = share.first_channel(at.row);
    const int element = at.chunk * kElements;
    const int channel = quotient(element, share.by_spatial);
    return {first_channel, element, (channel + 1) * share.spatial - element >= kElements,
            affine_here<T>(f, first_channel + channel)};
}

// Stores y of this lane's packs of the chunk. CUT: the chunk spans several channels.
template <typename T, bool CUT>
__device__ __forceinline__ void store_chunk(const Forward& f, const Share& share, const Moments& m, const Cursor& at,
                                            const Raw (&packs)[kForwardLoads], const ChunkPlace& place) {
    constexpr int V = 16 / sizeof(T);
    const int bytes = bytes_of(share, at.chunk, kSlotBytes);
    const int64_t begin = at.row * share.bytes + int64_t{at.chunk} * kSlotBytes;
    Line line = line_of(m, place.affine);
    Line next = line;
    int left = V;  // lanes from `left` on belong to the next channel
    #pragma unroll
    for (int j = 0; j < kForwardLoads; ++j) {
        const int offset = static_cast<int>(j * kWarp + threadIdx.x % kWarp) * 16;
        if (offset >= bytes) break;
        if (CUT) {
            const int first = place.element + offset / static_cast<int>(sizeof(T));
            const int channel = quotient(first, share.by_spatial);
            left = (channel + 1) * share.spatial - first;
            line = next = line_of(m, affine_here<T>(f, place.first_channel + channel));
            if (left < V) next = line_of(m, affine_here<T>(f, place.first_channel + channel + 1));
        }
        Pack<T, V> pack = elements_of<T>(packs[j]);
        Pack<float, V> z;
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const bool here = !CUT || k < left;
            z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, here ? line.scale : next.scale, here ? line.level : next.level);
        }
        if (f.residual != nullptr) {
            const auto* from = static_cast<const unsigned char*>(f.residual) + begin + offset;
            const auto residual = *reinterpret_cast<const Pack<T, V>*>(from);
            #pragma unroll
            for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
        }
        if (f.act != kNone) z = activated<T, V>(f.act, z);
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
        *reinterpret_cast<Raw*>(static_cast<unsigned char*>(f.y) + begin + offset) = reinterpret_cast<const Raw&>(pack);
    }
}

__device__ __forceinline__ void take_chunk(const Ring& ring, const Cursor& at, Raw (&packs)[kForwardLoads]) {
    barrier_wait(ring.full + at.slot, at.parity);
    read_chunk(ring.slots + at.slot * kSlotBytes, packs);
    slot_read(ring, at);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    stream_forward(const __grid_constant__ Forward f, const __grid_constant__ Share share, double* partials) {
    constexpr int kFirstStorer = kFirstSummer + kForwardSummers;
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ Board<Moments, kForwardSummers> board;
    const Ring ring = begin(shared, board);
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;

    if (warp == kLoader) {
        const void* const tensors[] = {f.x};
        if (lane == 0) load_chunks<1>(share, ring, tensors);
    } else if (warp == kPublisher) {
        publish_sums(share, board, partials);
    } else if (warp == kCollector) {
        const bool keeps = blockIdx.x % share.members == 0;
        collect_sums(share, board, partials, [&](int row, Pair total) {
            const Moments m = moments_of(total, share.inverse, f.eps);
            if (keeps) keep_moments(f, row, m);
            return m;
        });
    } else if (warp < kFirstStorer) {
        sum_chunks(share, board, warp - kFirstSummer, [&](const Cursor& at) {
            Raw packs[kForwardLoads];
            take_chunk(ring, at, packs);
            return moments_sum<T>(packs, bytes_of(share, at.chunk, kSlotBytes));
        });
    } else {
        for (Cursor at = first_chunk(share, warp - kFirstStorer); at.row < share.rows; advance(at, share, kWorkers - kForwardSummers)) {
            const ChunkPlace place = place_of<T>(f, share, at);
            Raw packs[kForwardLoads];
            take_chunk(ring, at, packs);
            const Moments m = answer_for(board, at.turn);
            if (place.is_uncut) {
                store_chunk<T, false>(f, share, m, at, packs, place);
            } else {
                store_chunk<T, true>(f, share, m, at, packs, place);
            }
        }
    }
}

}  // namespace kernelwright::group_norm::sm90
