// BatchNorm by its running statistics, with a residual and an activation, forward; and backward where no parameter
// wants a gradient. Elements lie in planes of a channel, or with their channels side by side.
#pragma once

#include "../../csrc/divisor.cuh"
#include "../../csrc/launched.cuh"
#include "backward.cuh"

namespace kernelwright::batch_norm {

// How planes lie in packs. A pack may reach into the next plane, but not further: a plane has a pack or more.
template <typename Index>
struct Planes {
    Index packs;
    Divisor<Index> spatial;  // in packs, where each is of one plane
    Divisor<Index> channels;
};

template <typename Taken, typename P, bool kStraddles, typename Index>
__global__ void __launch_bounds__(kMapThreads) planes(Forward args, Planes<Index> all) {
    constexpr int V = Taken::kWide;
    await_earlier();
    const Index pack = Index(blockIdx.x) * kMapThreads + threadIdx.x;
    if (pack >= all.packs) return;
    Taken taken;
    taken.load(args, pack);
    const Index place = pack * (kStraddles ? V : 1), plane = all.spatial.of(place);
    const Index channel = plane - all.channels.of(plane) * all.channels.by;
    const Map own = map_of<P>(args, channel);
    Map maps[V];
    if (kStraddles) {
        const Index left = all.spatial.by - (place - plane * all.spatial.by);
        const Index after = channel + 1 < all.channels.by ? channel + 1 : 0;
        const Map next = map_of<P>(args, left < V ? after : channel);
        #pragma unroll
        for (int k = 0; k < V; ++k) maps[k] = k < left ? own : next;
    } else {
        #pragma unroll
        for (int k = 0; k < V; ++k) maps[k] = own;
    }
    taken.store(args, pack, maps);
}

// A thread goes down the rows of its own channels; a block is `width` packs of channels wide.
template <typename Taken, typename P>
__global__ void __launch_bounds__(kMapThreads) side_by_side(
    Forward args, int64_t rows, int64_t packs, int width) {
    constexpr int V = Taken::kWide;
    await_earlier();
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t column = blockIdx.x % groups * int64_t{width} + threadIdx.x % width;
    const int height = kMapThreads / width;
    const int64_t begin = blockIdx.x / groups * int64_t{kRows * height} + int(threadIdx.x) / width;
    const int64_t end = min(rows, begin + kRows * height);
    if (column >= packs || begin >= rows) return;
    Map maps[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) maps[k] = map_of<P>(args, column * V + k);
    for (int64_t row = begin; row < end; row += kRowPacks * height) {
        Taken taken[kRowPacks];
        #pragma unroll
        for (int u = 0; u < kRowPacks; ++u) taken[u].load(args, min(row + u * height, rows - 1) * packs + column);
        #pragma unroll
        for (int u = 0; u < kRowPacks; ++u) {
            const int64_t at = row + u * height;
            if (at < end) taken[u].store(args, at * packs + column, maps);
        }
    }
}

template <typename Taken, typename P, bool kStraddles, typename Index>
cudaError_t launch_planes(const Forward& args) {
    constexpr int V = Taken::kWide;
    const int64_t packs = args.n * args.channels * args.spatial / V;
    const int64_t blocks = blocks_of(packs, kMapThreads);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const Planes<Index> all = {
        Index(packs), Divisor<Index>(kStraddles ? args.spatial : args.spatial / V), Divisor<Index>(args.channels)};
    return launched(planes<Taken, P, kStraddles, Index>, unsigned(blocks), kMapThreads, args.stream, args, all);
}

template <typename Taken, typename P>
cudaError_t launch(const Forward& args, bool in_planes) {
    constexpr int V = Taken::kWide;
    if (!in_planes) {
        const int64_t rows = args.n * args.spatial, packs = args.channels / V;
        int width = 1;
        while (width < kWarp && width < packs) width *= 2;
        const int64_t blocks = blocks_of(packs, width) * blocks_of(rows, kRows * (kMapThreads / width));
        if (blocks > kMaxGrid) return cudaErrorInvalidValue;
        return launched(
            side_by_side<Taken, P>, unsigned(blocks), kMapThreads, args.stream, args, rows, packs, width);
    }
    const bool is_wide = args.n * args.channels * args.spatial > 0x7fffffff;
    if constexpr (V > 1) {
        if (args.spatial % V != 0) {
            if (is_wide) return launch_planes<Taken, P, true, int64_t>(args);
            return launch_planes<Taken, P, true, unsigned>(args);
        }
    }
    if (is_wide) return launch_planes<Taken, P, false, int64_t>(args);
    return launch_planes<Taken, P, false, unsigned>(args);
}

// Forward the activations that most networks have get kernels of their own: asked for each pack, and called as a
// function, they take more instructions than all else.
template <typename T, typename P, int V>
cudaError_t launch_as(const Forward& args, bool in_planes) {
    if (args.dy != nullptr) return launch<Slope<T, V>, P>(args, in_planes);
    if constexpr (V > 1) {
        if (args.act == group_norm::kNone) return launch<Value<group_norm::kNone, T, V>, P>(args, in_planes);
        if (args.act == group_norm::kRelu) return launch<Value<group_norm::kRelu, T, V>, P>(args, in_planes);
        if (args.act == group_norm::kSilu) return launch<Value<group_norm::kSilu, T, V>, P>(args, in_planes);
    }
    return launch<Value<kAny, T, V>, P>(args, in_planes);
}

inline cudaError_t forward(const Forward& args) {
    const bool in_planes = args.layout == group_norm::kContiguous && args.spatial > 1;
    const int64_t count = args.n * args.channels * args.spatial;
    const bool starts =
        aligned(args.dy) && aligned(args.x) && aligned(args.residual) && aligned(args.y) && aligned(args.dz);
    return with_dtypes(args.dtype, args.param_dtype, [&](auto element, auto parameter) {
        using T = decltype(element);
        using P = decltype(parameter);
        constexpr int kWide = kVector<T>;
        const bool fits = in_planes ? args.spatial >= kWide && count % kWide == 0 : args.channels % kWide == 0;
        if (starts && fits) return launch_as<T, P, kWide>(args, in_planes);
        return launch_as<T, P, 1>(args, in_planes);
    });
}

}  // namespace kernelwright::batch_norm
