// Host side of the portable path: partition into blocks, workspace sizes, and launches.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "portable_backward.cuh"
#include "portable_backward_last.cuh"
#include "portable_backward_short.cuh"
#include "portable_forward.cuh"
#include "portable_forward_last.cuh"
#include "portable_forward_short.cuh"
#include "sizes.cuh"

namespace kernelwright::group_norm {

constexpr int kRowsOfBlock = 4;                   // rows of a block if a warp holds one
constexpr int64_t kSliceElements = 32 * 1024;     // maximum elements of a row or slab per block
constexpr int64_t kLeastElements = 4 * 1024;      // minimum elements per block if rows are few
constexpr int64_t kManyBlocks = 1024;             // blocks; some eight for each SM of a large GPU
constexpr int64_t kMaxSlices = 1024;

// Returns the maximum number of packs of a row, its partial ones included, for any alignment.
inline int64_t packs_of(int64_t length, int v) { return v == 1 ? length : ceil_div(length, v) + 1; }

inline Cut cut_of(int64_t rows, int64_t length, int v) {
    const int64_t packs = packs_of(length, v);
    const int64_t wanted = std::min(ceil_div(kManyBlocks, rows), ceil_div(length, kLeastElements));
    const int64_t slices = std::min(std::max(ceil_div(length, kSliceElements), wanted), kMaxSlices);
    return {slices, ceil_div(packs, slices)};
}

inline bool resident(int64_t length, int v) { return packs_of(length, v) <= int64_t{kResidentPacks} * kMaxTeam; }

// Partition of the channels-last layout into slabs, and the number of elements of a pack.
struct SlabPlan {
    Slabs cut;
    int v;
    int64_t blocks;
};

inline SlabPlan slab_plan(int64_t n, int64_t channels, int64_t spatial, int64_t groups, int64_t dtype,
                          std::initializer_list<const void*> tensors) {
    SlabPlan plan;
    const int64_t group_channels = channels / groups;
    plan.v = static_cast<int>(16 / element_bytes(dtype));
    for (const void* tensor : tensors) {
        if (reinterpret_cast<uintptr_t>(tensor) % 16 != 0) plan.v = 1;
    }
    if (channels % plan.v != 0) plan.v = 1;
    const int64_t fitting = std::max<int64_t>(1, int64_t{kSlabThreads} * plan.v / group_channels);
    int64_t tile_groups = std::min({fitting, groups, int64_t{kTileGroups}});
    if (tile_groups < groups && tile_groups * group_channels % plan.v != 0) {
        tile_groups = tile_groups / plan.v * plan.v;
        if (tile_groups == 0) {
            plan.v = 1;
            tile_groups = 1;
        }
    }
    const int64_t tile_channels = tile_groups * group_channels;
    const int64_t slabs = std::min(ceil_div(spatial * tile_channels, kSliceElements), std::min(spatial, kMaxSlices));
    const int64_t positions = ceil_div(spatial, slabs);
    plan.cut.slabs = ceil_div(spatial, positions);
    plan.cut.positions = positions;
    plan.cut.tiles = ceil_div(groups, tile_groups);
    plan.cut.tile_groups = tile_groups;
    plan.cut.group_channels = group_channels;
    plan.cut.across = static_cast<int>(std::min<int64_t>(tile_channels / plan.v, kSlabThreads));
    plan.blocks = n * plan.cut.tiles * plan.cut.slabs;
    return plan;
}

// ---- Forward

// Returns true if a block holds a row in 16-byte packs, one per thread.
inline bool is_short(const Forward& f) {
    const int64_t elements = f.channels / f.groups * f.spatial;
    const int64_t v = 16 / element_bytes(f.dtype);
    return forward_lanes(f) > 1 && elements <= v * kShortThreads && f.n * f.groups <= kMaxGrid &&
           f.channels <= kMaxGrid;
}

// Returns the lanes of the packs of rows longer than `is_short` allows: 1 if planes are shorter than packs.
inline int row_lanes(const Forward& f) { return f.spatial * element_bytes(f.dtype) < 16 ? 1 : forward_lanes(f); }

template <typename T>
cudaError_t forward_short(const Forward& f) {
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const ShortRows rows = {static_cast<int>(r.rows), static_cast<int>(r.length), static_cast<int>(f.spatial),
                            static_cast<int>(f.groups), static_cast<int>(r.group_channels),
                            1.0 / static_cast<double>(r.length),
                            Divisor<int>(f.spatial), Divisor<int>(f.groups)};
    const int64_t warps = ceil_div(r.length, int64_t{kWarp} * 16 / static_cast<int64_t>(sizeof(T)));
    const dim3 block(static_cast<unsigned>(std::min<int64_t>(warps * kWarp, kShortThreads)), warps == 1 ? kRowsOfBlock : 1);
    return launched(short_forward<T>, static_cast<unsigned>(ceil_div(r.rows, block.y)), block, f.stream, f, rows);
}

template <typename T, int V>
cudaError_t forward_rows(const Forward& f) {
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const int64_t packs = packs_of(r.length, V);
    if (resident(r.length, V)) {
        const int team = power_of_two(ceil_div(packs, kResidentPacks), kMaxTeam);
        const int threads = std::max(team, 128);
        const int64_t grid = ceil_div(r.rows, threads / team);
        if (grid > kMaxGrid) return cudaErrorInvalidValue;
        const auto blocks = static_cast<unsigned>(grid);
        return launched(resident_forward<T, V>, blocks, threads, f.stream, f, team);
    }
    const Cut cut = cut_of(r.rows, r.length, V);
    const int64_t grid = r.rows * cut.slices;
    if (grid > kMaxGrid) return cudaErrorInvalidValue;
    Pair* partials = static_cast<Pair*>(f.workspace);
    const auto blocks = static_cast<unsigned>(grid);
    const cudaError_t error = launched(row_moments<T, V>, blocks, kSliceThreads, f.stream, f, cut, partials);
    if (error != cudaSuccess) return error;
    return launched(apply_rows<T, V>, blocks, kSliceThreads, f.stream, f, cut, partials);
}

template <typename T, int V>
cudaError_t forward_slabs(const Forward& f, const SlabPlan& plan) {
    if (plan.blocks > kMaxGrid) return cudaErrorInvalidValue;
    Pair* partials = plan.cut.slabs == 1 ? nullptr : static_cast<Pair*>(f.workspace);
    const auto blocks = static_cast<unsigned>(plan.blocks);
    if (partials != nullptr) {
        const cudaError_t error = launched(slab_moments<T, V>, blocks, kSlabThreads, f.stream, f, plan.cut, partials);
        if (error != cudaSuccess) return error;
    }
    return launched(apply_slab<T, V>, blocks, kSlabThreads, f.stream, f, plan.cut, partials);
}

inline SlabPlan forward_plan(const Forward& f) {
    return slab_plan(f.n, f.channels, f.spatial, f.groups, f.dtype, {f.x, f.y, f.residual});
}

inline int64_t portable_forward_workspace(const Forward& f) {
    if (f.layout == kChannelsLast) {
        const SlabPlan plan = forward_plan(f);
        return plan.cut.slabs == 1 ? 0 : f.n * plan.cut.slabs * f.groups * int64_t{sizeof(Pair)};
    }
    const Rows r = rows_of(f.n, f.channels, f.spatial, f.groups);
    const int v = row_lanes(f);
    return is_short(f) || resident(r.length, v) ? 0 : r.rows * cut_of(r.rows, r.length, v).slices * int64_t{sizeof(Pair)};
}

template <typename T>
cudaError_t portable_forward_of(const Forward& f) {
    constexpr int kLanes = 16 / sizeof(T);
    if (f.layout == kChannelsLast) {
        const SlabPlan plan = forward_plan(f);
        return plan.v == 1 ? forward_slabs<T, 1>(f, plan) : forward_slabs<T, kLanes>(f, plan);
    }
    if (is_short(f)) return forward_short<T>(f);
    return row_lanes(f) == 1 ? forward_rows<T, 1>(f) : forward_rows<T, kLanes>(f);
}

inline cudaError_t portable_forward(const Forward& f) {
    return with_dtype(f.dtype, [&](auto element) { return portable_forward_of<decltype(element)>(f); });
}

// ---- Backward

inline SlabPlan backward_plan(const Backward& b) {
    return slab_plan(b.n, b.channels, b.spatial, b.groups, b.dtype, {b.x, b.dy, b.residual, b.dx, b.dresidual});
}

inline int64_t portable_backward_workspace(const Backward& b) {
    if (b.layout == kChannelsLast) {
        const int64_t pieces = b.n * backward_plan(b).cut.slabs;
        return aligned(pieces * b.channels * int64_t{sizeof(Sums)}) + pieces * b.groups * int64_t{sizeof(Pair)};
    }
    const int64_t slices = cut_of(b.n * b.channels, b.spatial, backward_lanes(b, b.spatial)).slices;
    return b.n * b.channels * slices * int64_t{sizeof(Sums)};
}

inline int64_t channel_blocks(const Backward& b) {
    return b.dweight == nullptr && b.dbias == nullptr ? 0 : ceil_div(b.channels, kWarp);
}

inline bool row_blocks(const Backward& b) { return b.dx != nullptr || b.dresidual != nullptr; }

inline int team_of(int64_t packs) { return power_of_two(ceil_div(packs, 4), kSliceThreads); }

template <typename T, int V>
cudaError_t launch_plane_sums(const Backward& b, const Cut& cut, Sums* sums) {
    const int team = team_of(cut.packs);
    const int64_t grid = ceil_div(b.n * b.channels * cut.slices, kSliceThreads / team);
    if (grid > kMaxGrid) return cudaErrorInvalidValue;
    return launched(plane_sums<T, V>, static_cast<unsigned>(grid), kSliceThreads, b.stream, b, cut, team, sums);
}

template <typename T, int V>
cudaError_t launch_row_gradients(const Backward& b, const Pieces& pieces) {
    const Rows r = rows_of(b.n, b.channels, b.spatial, b.groups);
    const Cut cut = cut_of(r.rows, r.length, V);
    const int team = team_of(cut.packs);
    const int64_t blocks = row_blocks(b) ? ceil_div(r.rows * cut.slices, kSliceThreads / team) : 0;
    const int64_t grid = blocks + channel_blocks(b);
    if (grid > kMaxGrid) return cudaErrorInvalidValue;
    if (grid == 0) return cudaSuccess;
    return launched(row_gradients<T, V>, static_cast<unsigned>(grid), kSliceThreads, b.stream, b, cut, team, blocks, pieces);
}

template <typename T, int V>
cudaError_t backward_slabs(const Backward& b, const SlabPlan& plan) {
    const int64_t grid = (row_blocks(b) ? plan.blocks : 0) + channel_blocks(b);
    if (std::max(grid, plan.blocks) > kMaxGrid) return cudaErrorInvalidValue;
    if (grid == 0) return cudaSuccess;
    Sums* of_channel = static_cast<Sums*>(b.workspace);
    const int64_t bytes = aligned(b.n * plan.cut.slabs * b.channels * int64_t{sizeof(Sums)});
    Pair* of_group = reinterpret_cast<Pair*>(static_cast<char*>(b.workspace) + bytes);
    const Pieces pieces = {of_channel, plan.cut.slabs, 1, b.channels};
    const cudaError_t error = launched(slab_sums<T, V>, static_cast<unsigned>(plan.blocks), kSlabThreads, b.stream, b,
                                       plan.cut, of_channel, of_group);
    if (error != cudaSuccess) return error;
    return launched(slab_gradients<T, V>, static_cast<unsigned>(grid), kSlabThreads, b.stream, b, plan.cut,
                    row_blocks(b) ? plan.blocks : 0, pieces, of_group);
}

// Returns true if a block holds a group of all samples.
inline bool is_short(const Backward& b) {
    const int64_t planes = b.n * (b.channels / b.groups);
    const int64_t team = power_of_two(ceil_div(b.spatial, kSmallElements), kMaxThreads);
    return planes * team <= kMaxThreads && b.spatial <= kSmallElements * team && b.channels <= kMaxGrid;
}

template <typename T>
cudaError_t backward_short(const Backward& b) {
    const int64_t group_channels = b.channels / b.groups;
    const int64_t planes = b.n * group_channels;
    const int team = power_of_two(ceil_div(b.spatial, kSmallElements), kMaxThreads);
    int log_team = 0;
    while (1 << log_team < team) ++log_team;
    bool is_packed = b.spatial % kSmallElements == 0;
    for (const void* tensor : std::initializer_list<const void*>{b.x, b.dy, b.residual, b.dx, b.dresidual}) {
        is_packed = is_packed && reinterpret_cast<uintptr_t>(tensor) % sizeof(Few<T>) == 0;
    }
    const SmallGroups groups = {static_cast<int>(b.n), static_cast<int>(b.groups), static_cast<int>(group_channels),
                                static_cast<int>(b.spatial), log_team,
                                1.0 / static_cast<double>(group_channels * b.spatial), Divisor<int>(group_channels)};
    const auto threads = static_cast<unsigned>(ceil_div(planes * team, kWarp) * kWarp);
    const auto kernel = is_packed ? short_backward<T, true> : short_backward<T, false>;
    return launched(kernel, static_cast<unsigned>(b.groups), threads, b.stream, b, groups);
}

template <typename T>
cudaError_t portable_backward_of(const Backward& b) {
    constexpr int kLanes = 16 / sizeof(T);
    if (b.layout == kChannelsLast) {
        const SlabPlan plan = backward_plan(b);
        return plan.v == 1 ? backward_slabs<T, 1>(b, plan) : backward_slabs<T, kLanes>(b, plan);
    }
    if (is_short(b)) return backward_short<T>(b);
    // Planes and rows are partitioned separately: short planes may be part of long rows.
    const int plane_lanes = backward_lanes(b, b.spatial);
    const Cut cut = cut_of(b.n * b.channels, b.spatial, plane_lanes);
    Sums* sums = static_cast<Sums*>(b.workspace);
    const cudaError_t error =
        plane_lanes == 1 ? launch_plane_sums<T, 1>(b, cut, sums) : launch_plane_sums<T, kLanes>(b, cut, sums);
    if (error != cudaSuccess) return error;
    const Pieces pieces = {sums, cut.slices, cut.slices, 1};
    const int row_lanes = backward_lanes(b, b.channels / b.groups * b.spatial);
    return row_lanes == 1 ? launch_row_gradients<T, 1>(b, pieces) : launch_row_gradients<T, kLanes>(b, pieces);
}

inline cudaError_t portable_backward(const Backward& b) {
    return with_dtype(b.dtype, [&](auto element) { return portable_backward_of<decltype(element)>(b); });
}

}  // namespace kernelwright::group_norm
