// Forward for the contiguous layout [n][channel][position]: a group is a row of consecutive elements.
//
// resident_forward: one launch. A team of threads holds a row in registers: one read, one write.
// row_moments, then apply_rows: two launches for longer rows. The second read hits L2 as far as its capacity goes:
// blocks of the second launch handle the rows in reverse order, starting with those read last.
#pragma once

#include "../../csrc/launched.cuh"
#include "activation.cuh"
#include "elements.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

constexpr int kMaxTeam = 512;      // maximum threads that hold a row
constexpr int kSliceThreads = 256;
constexpr int kResidentPacks = 8;  // packs of a row that a thread holds in registers
constexpr int kTilePacks = 8;  // 16-byte loads that a thread has in flight; their elements form one Run
constexpr int kApplyPacks = 4;  // 16-byte loads that a thread has in flight when the result is computed

// The rows of the contiguous layout.
struct Rows {
    int64_t rows;            // number of rows, n * groups
    int64_t length;          // elements of a row
    int64_t group_channels;
};

__host__ __device__ inline Rows rows_of(int64_t n, int64_t channels, int64_t spatial, int64_t groups) {
#ifdef __CUDA_ARCH__
    const int64_t group_channels = quotient(channels, groups);
#else
    const int64_t group_channels = channels / groups;
#endif
    return {n * groups, group_channels * spatial, group_channels};
}

// Partition of a long row: `slices` blocks of `packs` packs each.
struct Cut {
    int64_t slices;
    int64_t packs;
};

// Location of a pack in a row: its first channel, and the position of lane 0 in that channel's plane.
template <typename I>
struct Place {
    I channel;
    I position;  // negative if the pack begins before its row

    // Moves to the pack `channels` channels and `positions` positions after this one.
    __device__ __forceinline__ void advance(I channels, I positions, I spatial) {
        channel += channels;
        position += positions;
        for (; position < 0; position += spatial) --channel;  // after a pack that begins before its row
        if (position < spatial) return;
        position -= spatial;
        ++channel;
    }
};

// Affine map of a channel's elements from moments and parameters: z = (x - mean) * scale + level.
struct Line {
    float scale;
    float level;
};

__device__ __forceinline__ Line line_of(const Moments& m, const Affine& affine) {
    const float scale = m.rstd * affine.weight;
    return {scale, fmaf(-m.rest, scale, affine.bias)};
}

template <typename T>
__device__ __forceinline__ Affine affine_here(const Forward& f, int64_t channel) {
    return widened<T>(stored_affine<T>(f.weight, f.bias, f.param_dtype, channel));
}

// Parameters of the channel in which a pack begins, and of the next channel if the pack extends into it.
struct Affines {
    Affine here;
    Affine next;
};

template <typename T, int V, typename I>
__device__ __forceinline__ Affines affines_of(const Forward& f, Place<I> at, I first, I length) {
    const I spatial = static_cast<I>(f.spatial);
    const I left = spatial - at.position;
    Affines affines;
    affines.here = affines.next = affine_here<T>(f, at.channel);
    if (left < V && first + left < length) affines.next = affine_here<T>(f, at.channel + 1);
    return affines;
}

// Computes y of the pack whose lane 0 is element `first` of its row. Planes are at least as long as packs, so that a
// pack spans at most two channels, and the lanes do not diverge.
template <typename T, int V, typename I>
__device__ __forceinline__ void apply_pack(const Forward& f, const Moments& m, Pack<T, V> pack, int64_t row_start,
                                           I first, I length, Place<I> at, const Affines& affines) {
    const I left = static_cast<I>(f.spatial) - at.position;  // lanes from `left` on belong to the next channel
    const Line line = line_of(m, affines.here), next = line_of(m, affines.next);
    Pack<float, V> z;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const bool here = k < left;
        z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, here ? line.scale : next.scale, here ? line.level : next.level);
    }
    if (f.residual != nullptr) {
        const Pack<T, V> residual = load_pack<T, V>(static_cast<const T*>(f.residual) + row_start, first, length);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] += to_float(residual.v[k]);
    }
    if (f.act != kNone) z = activate_pack<V>(f.act, z);
    #pragma unroll
    for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(z.v[k]);
    store_pack<T, V>(static_cast<T*>(f.y) + row_start, first, length, pack);
}

__device__ __forceinline__ void keep_moments(const Forward& f, int64_t row, const Moments& m) {
    if (f.mean == nullptr) return;
    f.mean[row] = m.mean;
    f.rstd[row] = m.rstd;
}

template <typename T, int V, int P, typename I>
__device__ __forceinline__ Pair sum_packs(const Held<T, V> (&packs)[P], I first, I step, I end, I length) {
    Run run;
    run.start(0.0f);
    #pragma unroll
    for (int j = 0; j < P; ++j) {
        const I lane = first + j * step;
        if (lane >= end) break;
        const Pack<T, V> pack = elements_of<T>(packs[j]);
        if (whole<V>(lane, length)) {
            if (run.count == 0) run.start(to_float(pack.v[0]));
            #pragma unroll
            for (int k = 0; k < V; ++k) run.add(to_float(pack.v[k]));
        } else {
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                if (!inside<I>(lane + k, length)) continue;
                const float value = to_float(pack.v[k]);
                if (run.count == 0) run.start(value);
                run.add(value);
            }
        }
    }
    return run.total();
}

// Normalises a row in a team of `team` threads, with at most kResidentPacks packs per thread.
template <typename T, int V>
__global__ void __launch_bounds__(kMaxTeam) resident_forward(const Forward f, const int team) {
    await_earlier();
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
    const bool mine = row < r.rows;
    const int64_t start = row * r.length;
    const int length = static_cast<int>(r.length);
    const T* x = static_cast<const T*>(f.x) + start;
    const int lane = threadIdx.x % team;
    const int step = team * V;
    const int first = lane * V - lead_of<T, V>(x);
    const int spatial = static_cast<int>(f.spatial);
    const int channels = step / spatial, positions = step - channels * spatial;  // from a pack to the thread's next
    const int before = first < 0 ? 0 : first / spatial;
    const int channel = static_cast<int>(split(row, f.groups).remainder * r.group_channels);
    const Place<int> start_at = {channel + before, first - before * spatial};
    constexpr int P = kResidentPacks;
    Held<T, V> held[P];
    Pair total = {0.0, 0.0};
    if (mine) {
        #pragma unroll
        for (int j = 0; j < P; ++j) {
            if (first + j * step >= length) break;
            held[j] = load_held<T, V>(x, first + j * step, length);
        }
        total = sum_packs<T, V, P>(held, first, step, length, length);
    }
    total = team_sum(total, team);
    if (!mine) return;
    const Moments m = moments_of(total, 1.0 / length, f.eps);
    if (lane == 0) keep_moments(f, row, m);
    Place<int> at = start_at;
    #pragma unroll
    for (int j = 0; j < P; ++j) {
        const int element = first + j * step;
        if (element >= length) break;
        const Affines affines = affines_of<T, V>(f, at, element, length);
        apply_pack<T, V>(f, m, elements_of<T>(held[j]), start, element, length, at, affines);
        at.advance(channels, positions, spatial);
    }
}

// Sums one slice of a row per block and writes partials[row * slices + slice].
template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) row_moments(const Forward f, const Cut cut, Pair* partials) {
    await_earlier();
    let_next_begin();
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const auto [row, slice] = split(blockIdx.x, cut.slices);
    const T* x = static_cast<const T*>(f.x) + row * r.length;
    const int lead = lead_of<T, V>(x);
    const int64_t begin = slice * cut.packs * V - lead;
    const int64_t last = begin + cut.packs * V;
    const int64_t end = last < r.length ? last : r.length;
    constexpr int kStep = kSliceThreads * V;
    Pair total = {0.0, 0.0};
    for (int64_t first = begin + threadIdx.x * V; first < end; first += kTilePacks * kStep) {
        Held<T, V> tile[kTilePacks];
        #pragma unroll
        for (int j = 0; j < kTilePacks; ++j) {
            if (first + j * kStep < end) tile[j] = load_held<T, V>(x, first + j * kStep, r.length);
        }
        total = total + sum_packs<T, V, kTilePacks, int64_t>(tile, first, kStep, end, r.length);
    }
    total = team_sum(total, kSliceThreads);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) apply_rows(const Forward f, const Cut cut, const Pair* partials) {
    await_earlier();
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const auto [row, slice] = split(gridDim.x - 1 - blockIdx.x, cut.slices);
    Pair total = {0.0, 0.0};
    for (int64_t s = threadIdx.x; s < cut.slices; s += kSliceThreads) total = total + partials[row * cut.slices + s];
    const Moments m = moments_of(team_sum(total, kSliceThreads), 1.0 / r.length, f.eps);
    if (slice == 0 && threadIdx.x == 0) keep_moments(f, row, m);

    const int64_t start = row * r.length;
    const T* x = static_cast<const T*>(f.x) + start;
    const int64_t begin = slice * cut.packs * V - lead_of<T, V>(x);
    const int64_t last = begin + cut.packs * V;
    const int64_t end = last < r.length ? last : r.length;
    const int64_t channel = split(row, f.groups).remainder * r.group_channels;
    constexpr int kStep = kSliceThreads * V;
    int64_t first = begin + threadIdx.x * V;
    const int64_t before = first < 0 ? 0 : quotient(first, f.spatial);
    Place<int64_t> at = {channel + before, first - before * f.spatial};
    const int64_t channels = quotient(kStep, f.spatial), positions = kStep - channels * f.spatial;
    for (; first < end; first += kApplyPacks * kStep) {
        Held<T, V> tile[kApplyPacks];
        #pragma unroll
        for (int j = 0; j < kApplyPacks; ++j) {
            if (first + j * kStep < end) tile[j] = load_held<T, V>(x, first + j * kStep, r.length);
        }
        #pragma unroll
        for (int j = 0; j < kApplyPacks; ++j) {
            if (first + j * kStep >= end) break;
            const int64_t element = first + j * kStep;
            const Affines affines = affines_of<T, V>(f, at, element, r.length);
            apply_pack<T, V>(f, m, elements_of<T>(tile[j]), start, element, r.length, at, affines);
            at.advance(channels, positions, f.spatial);
        }
    }
}

}  // namespace kernelwright::group_norm
