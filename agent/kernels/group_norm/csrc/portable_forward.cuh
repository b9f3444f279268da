// Forward of the contiguous layout [n][channel][position]: a group is a row of consecutive elements.
//
// resident_forward: one launch. A team of threads holds a row in its registers: one read, one write.
// row_moments, then apply_rows: two launches for longer rows. The second read comes from L2 as far as that reaches:
// blocks of the second launch take the rows in reverse, beginning with those read last.
#pragma once

#include "activation.cuh"
#include "elements.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm {

constexpr int kMaxTeam = 512;      // threads that hold a row
constexpr int kSliceThreads = 256;
constexpr int kTilePacks = 8;  // 16-byte loads that a thread has in flight, one run of its sums

// The rows of the contiguous layout.
struct Rows {
    int64_t rows;            // n * groups
    int64_t length;          // elements of one
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

// How a long row is cut: `slices` blocks, each with `packs` packs of the row.
struct Cut {
    int64_t slices;
    int64_t packs;
};

// y of one pack whose lane 0 is element `first` of its row; `channel` is the row's first one.
template <typename T, int V>
__device__ __forceinline__ void apply_pack(
    const Forward& f, const Moments& m, Pack<T, V> pack, int64_t row_start, int64_t first, int64_t length,
    int64_t channel) {
    const int64_t at = first < 0 ? 0 : first;
    const Split plane = split(at, f.spatial);
    int64_t position = plane.remainder;
    channel += plane.quotient;
    Affine affine = affine_of<T>(f.weight, f.bias, f.param_dtype, channel);
    Pack<float, V> z;
    if (whole<V>(first, length) && position + V <= f.spatial) {
        const float scale = m.rstd * affine.weight;
        const float offset = fmaf(-m.rest, scale, affine.bias);
        #pragma unroll
        for (int k = 0; k < V; ++k) z.v[k] = fmaf(to_float(pack.v[k]) - m.mean, scale, offset);
    } else {
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            z.v[k] = fmaf((to_float(pack.v[k]) - m.mean) - m.rest, m.rstd * affine.weight, affine.bias);
            if (first + k < 0 || ++position < f.spatial || !inside(first + k + 1, length)) continue;
            position = 0;
            affine = affine_of<T>(f.weight, f.bias, f.param_dtype, ++channel);
        }
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

template <typename T, int V, int P>
__device__ __forceinline__ Pair sum_packs(const Pack<T, V> (&packs)[P], int64_t first, int64_t step, int64_t end,
                                          int64_t length) {
    Run run;
    run.start(0.0f);
    #pragma unroll
    for (int j = 0; j < P; ++j) {
        const int64_t lane = first + j * step;
        if (lane >= end) break;
        const bool all = whole<V>(lane, length);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            if (!all && !inside(lane + k, length)) continue;
            const float value = to_float(packs[j].v[k]);
            if (run.count == 0) run.start(value);
            run.add(value);
        }
    }
    return run.total();
}

// A team of `team` threads per row, which is at most P packs for each of them.
template <typename T, int V, int P>
__global__ void __launch_bounds__(kMaxTeam) resident_forward(const Forward f, const int team) {
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / team) + threadIdx.x / team;
    const bool mine = row < r.rows;
    const int64_t start = row * r.length;
    const T* x = static_cast<const T*>(f.x) + start;
    const int lane = threadIdx.x % team;
    const int step = team * V;
    int first = 0;
    Pack<T, V> held[P];
    Pair total = {0.0, 0.0};
    if (mine) {
        first = lane * V - lead_of<T, V>(x);
        #pragma unroll
        for (int j = 0; j < P; ++j) {
            if (first + j * step < r.length) held[j] = load_pack<T, V>(x, first + j * step, r.length);
        }
        total = sum_packs<T, V, P>(held, first, step, r.length, r.length);
    }
    total = team_sum(total, team);
    if (!mine) return;
    const Moments m = moments_of(total, 1.0 / r.length, f.eps);
    if (lane == 0) keep_moments(f, row, m);
    const int64_t channel = split(row, f.groups).remainder * r.group_channels;
    #pragma unroll
    for (int j = 0; j < P; ++j) {
        if (first + j * step >= r.length) break;
        apply_pack<T, V>(f, m, held[j], start, first + j * step, r.length, channel);
    }
}

// Sums of one slice per block: partials[row * slices + slice].
template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) row_moments(const Forward f, const Cut cut, Pair* partials) {
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
        Pack<T, V> tile[kTilePacks];
        #pragma unroll
        for (int j = 0; j < kTilePacks; ++j) {
            if (first + j * kStep < end) tile[j] = load_pack<T, V>(x, first + j * kStep, r.length);
        }
        total = total + sum_packs<T, V, kTilePacks>(tile, first, kStep, end, r.length);
    }
    total = team_sum(total, kSliceThreads);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

template <typename T, int V>
__global__ void __launch_bounds__(kSliceThreads) apply_rows(const Forward f, const Cut cut, const Pair* partials) {
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
    #pragma unroll 4
    for (int64_t first = begin + threadIdx.x * V; first < end; first += kStep) {
        apply_pack<T, V>(f, m, load_pack<T, V>(x, first, r.length), start, first, r.length, channel);
    }
}

}  // namespace kernelwright::group_norm
