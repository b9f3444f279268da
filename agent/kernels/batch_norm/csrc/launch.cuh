// BatchNorm by its running statistics, with a residual and an activation, forward; and backward where no parameter
// wants a gradient. Elements lie in planes of a channel, or with their channels side by side.
#pragma once

#include "backward.cuh"

namespace kernelwright::batch_norm {

// Planes one after the other. A pack may reach into the next one, but not further: a plane has a pack or more.
template <typename T, int V, typename Index>
__global__ void __launch_bounds__(kThreads, kBlocks) planes(Forward args, Index packs) {
    const Index first = Index(blockIdx.x) * (kThreads * kPacks) + threadIdx.x;
    const Index spatial = Index(args.spatial), channels = Index(args.channels);
    Taken<T, V> taken[kPacks];
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) taken[u].load(args, min(Index(first + u * kThreads), Index(packs - 1)));
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const Index place = first + u * kThreads;
        if (place >= packs) return;
        const Index plane = place * V / spatial, left = spatial - place * V % spatial;
        const Index channel = plane % channels, after = channel + 1 < channels ? channel + 1 : 0;
        const Map own = map_of<T>(args, channel);
        const Map next = left < V ? map_of<T>(args, after) : own;
        Map maps[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) maps[k] = k < left ? own : next;
        taken[u].store(args, place, maps);
    }
}

// A thread goes down the rows of its own channels; a block is `width` packs of channels wide.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads, kBlocks) side_by_side(
    Forward args, int64_t rows, int64_t packs, int width) {
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t column = blockIdx.x % groups * int64_t{width} + threadIdx.x % width;
    const int height = kThreads / width;
    const int64_t begin = blockIdx.x / groups * int64_t{kRows * height} + int(threadIdx.x) / width;
    const int64_t end = min(rows, begin + kRows * height);
    if (column >= packs || begin >= rows) return;
    Map maps[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) maps[k] = map_of<T>(args, column * V + k);
    for (int64_t row = begin; row < end; row += kPacks * height) {
        Taken<T, V> taken[kPacks];
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) taken[u].load(args, min(row + u * height, rows - 1) * packs + column);
        #pragma unroll
        for (int u = 0; u < kPacks; ++u) {
            const int64_t at = row + u * height;
            if (at < end) taken[u].store(args, at * packs + column, maps);
        }
    }
}

template <typename T, int V>
cudaError_t launch(const Forward& args, bool in_planes) {
    const int64_t count = args.n * args.channels * args.spatial;
    if (!in_planes) {
        const int64_t rows = args.n * args.spatial, packs = args.channels / V;
        int width = 1;
        while (width < kWarp && width < packs) width *= 2;
        const int64_t blocks = blocks_of(packs, width) * blocks_of(rows, kRows * (kThreads / width));
        if (blocks > kMaxGrid) return cudaErrorInvalidValue;
        side_by_side<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, rows, packs, width);
        return cudaGetLastError();
    }
    const int64_t packs = count / V, blocks = blocks_of(packs, kThreads * kPacks);
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    if (count <= 0x7fffffff) {
        planes<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, unsigned(packs));
    } else {
        planes<T, V><<<unsigned(blocks), kThreads, 0, args.stream>>>(args, packs);
    }
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    const bool in_planes = args.layout == group_norm::kContiguous && args.spatial > 1;
    const int64_t count = args.n * args.channels * args.spatial;
    const bool starts =
        aligned(args.dy) && aligned(args.x) && aligned(args.residual) && aligned(args.y) && aligned(args.dz);
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        constexpr int kWide = kVector<T>;
        const bool fits = in_planes ? args.spatial >= kWide && count % kWide == 0 : args.channels % kWide == 0;
        if (starts && fits) return launch<T, kWide>(args, in_planes);
        return launch<T, 1>(args, in_planes);
    });
}

}  // namespace kernelwright::batch_norm
