// Forward of BatchNorm with running statistics, a residual and an activation, and the backward without gradients of
// parameters. Layouts: contiguous (a plane per channel) and channels-last.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../csrc/launched.cuh"
#include "backward.cuh"

namespace kernelwright::batch_norm {

// Planes counted in packs. A pack may straddle two planes but not three, since a plane has at least one pack.
template <typename Index>
struct Planes {
    Index packs;
    Divisor<Index> spatial;  // in packs, or in elements if packs straddle planes
    Divisor<Index> channels;
};

template <typename Taken, bool kStraddles, typename Index>
__global__ void __launch_bounds__(kMapThreads) planes(Forward args, Planes<Index> all) {
    using T = typename Taken::Stored;
    constexpr int V = Taken::kWide;
    const Index pack = Index(blockIdx.x) * kMapThreads + threadIdx.x;
    const Index place = pack * (kStraddles ? V : 1), plane = all.spatial.of(place);
    const Index channel = plane - all.channels.of(plane) * all.channels.by;
    await_earlier();
    if (pack >= all.packs) return;
    Taken taken;
    taken.load(args, pack);
    const Index left = kStraddles ? all.spatial.by - (place - plane * all.spatial.by) : V;
    const Index after = left >= V ? channel : channel + 1 < all.channels.by ? channel + 1 : 0;
    Map own, next;
    with_parameters<T>(args, [&](auto stored) {
        own = map_of<decltype(stored)>(args, channel);
        if (kStraddles) next = map_of<decltype(stored)>(args, after);
    });
    Map maps[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) maps[k] = !kStraddles || k < left ? own : next;
    taken.store(args, pack, maps);
}

// Computes channels-last layout: a thread handles kRows rows of one pack of channels, a block is `width` packs wide.
template <typename Taken>
__global__ void __launch_bounds__(kMapThreads) side_by_side(
    Forward args, int64_t rows, int64_t packs, int width) {
    constexpr int V = Taken::kWide;
    await_earlier();
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t column = blockIdx.x % groups * int64_t{width} + threadIdx.x % width;
    const int height = kMapThreads / width;
    const int64_t row = blockIdx.x / groups * int64_t{kRows * height} + int(threadIdx.x) / width;
    if (column >= packs || row >= rows) return;
    Map maps[V];
    with_parameters<typename Taken::Stored>(
        args, [&](auto stored) { map_of<decltype(stored)>(maps, args, column); });
    Taken taken[kRows];
    #pragma unroll
    for (int u = 0; u < kRows; ++u) taken[u].load(args, min(row + u * height, rows - 1) * packs + column);
    #pragma unroll
    for (int u = 0; u < kRows; ++u) {
        const int64_t at = row + u * height;
        if (at < rows) taken[u].store(args, at * packs + column, maps);
    }
}

template <typename Taken, bool kStraddles, typename Index>
cudaError_t launch_planes(const Forward& args) {
    constexpr int V = Taken::kWide;
    const int64_t packs = args.n * args.channels * args.spatial / V;
    const int64_t blocks = blocks_of(packs, kMapThreads);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const Planes<Index> all = {
        Index(packs), Divisor<Index>(kStraddles ? args.spatial : args.spatial / V), Divisor<Index>(args.channels)};
    return launched(planes<Taken, kStraddles, Index>, unsigned(blocks), kMapThreads, args.stream, args, all);
}

// Returns true if 32 bits suffice as an index: of packs, or of elements if packs straddle planes.
inline bool is_counted(const Forward& args, int64_t vector) {
    const int64_t count = args.n * args.channels * args.spatial;
    return is_narrow(args.spatial % vector == 0 ? count / vector : count);
}

template <typename Taken>
cudaError_t launch(const Forward& args, bool in_planes) {
    constexpr int V = Taken::kWide;
    if (!in_planes) {
        const int64_t rows = args.n * args.spatial, packs = args.channels / V;
        int width = 1;
        while (width < kWarp && width < packs) width *= 2;
        const int64_t blocks = blocks_of(packs, width) * blocks_of(rows, kRows * (kMapThreads / width));
        if (blocks > kMaxGrid) return cudaErrorInvalidValue;
        return launched(side_by_side<Taken>, unsigned(blocks), kMapThreads, args.stream, args, rows, packs, width);
    }
    if constexpr (V > 1) {
        if (args.spatial % V != 0) return launch_planes<Taken, true, unsigned>(args);
        return launch_planes<Taken, false, unsigned>(args);
    } else {
        if (is_counted(args, 1)) return launch_planes<Taken, false, unsigned>(args);
        return launch_planes<Taken, false, int64_t>(args);
    }
}

// The most common activations get kernels of their own in the forward. An activation selected at run time and called as
// a function per pack would take more instructions than all other work of the kernel.
template <typename T, int V>
cudaError_t launch_as(const Forward& args, bool in_planes) {
    if (args.dy != nullptr) return launch<Slope<T, V>>(args, in_planes);
    if constexpr (V > 1) {
        if (args.act == group_norm::kNone) return launch<Value<group_norm::kNone, T, V>>(args, in_planes);
        if (args.act == group_norm::kRelu) return launch<Value<group_norm::kRelu, T, V>>(args, in_planes);
        if (args.act == group_norm::kSilu) return launch<Value<group_norm::kSilu, T, V>>(args, in_planes);
    }
    return launch<Value<kAny, T, V>>(args, in_planes);
}

inline cudaError_t forward(const Forward& args) {
    const bool in_planes = args.layout == group_norm::kContiguous && args.spatial > 1;
    const int64_t count = args.n * args.channels * args.spatial;
    if (args.param_dtype != args.dtype && args.param_dtype != kFloat32) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int kWide = kVector<T>;
        const bool fits = in_planes ? args.spatial >= kWide && count % kWide == 0 && is_counted(args, kWide)
                                    : args.channels % kWide == 0 && parameters_start(args);
        if (tensors_start(args) && aligned(args.y) && fits) return launch_as<T, kWide>(args, in_planes);
        return launch_as<T, 1>(args, in_planes);
    });
}

}  // namespace kernelwright::batch_norm
