// Cumulative sums of [outer, length, inner] along length, from the front or, for the gradient, from the back.
//
// Lengths that fit registers are summed there (short.cuh, held.cuh). Long columns go strip by strip if there are enough of
// them (strips.cuh), other lengths tile by tile (tiles.cuh). If these give too few blocks, the length is split: a first pass
// sums the parts, and each block starts from the sum of the parts before its own. The order of additions is fixed.
#pragma once

#include "short.cuh"
#include "strips.cuh"
#include "tiles.cuh"

namespace kernelwright::cumsum {

struct Forward {
    const void* x;
    void* y;
    void* workspace;
    int64_t outer, length, inner;
    int64_t reverse;  // nonzero: y is the sum from its position to the end
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int64_t kEnough = 256;    // blocks that saturate memory without a split
constexpr int64_t kOfParts = 512;   // target number of blocks with a split

constexpr int64_t kOfWarp = 16;  // packs per lane up to which a warp takes a row

// Returns the shape of a split where rows or columns are too few, else the number of threads per row.
template <int V>
Shape shape_of(const Forward& args) {
    Shape shape = shape_for<V>(args.outer, args.length, args.inner, 1);
    const int64_t rows = shape.by_rows ? shape.outer : shape.blocks;
    if (rows < kEnough) {
        const Shape split = shape_for<V>(args.outer, args.length, args.inner, kOfParts);
        if (split.splits > 1) return split;
    }
    if (shape.by_rows) {
        const bool short_row = shape.length <= kWarp * kOfWarp && rows >= kEnough;
        shape.width = row_width(shape.length, kTilePacks, 4);
        if (shape.width > kWarp) shape.width = short_row ? kWarp : kReduceThreads;
        shape.blocks = divided_up(shape.outer, kReduceThreads / shape.width);
    }
    return shape;
}

inline bool takes_vectors(const Forward& args, int64_t vector) {
    return aligned(args.x) && aligned(args.y) && (args.inner == 1 ? args.length : args.inner) % vector == 0;
}

// Distribution of a length over registers. `parts` is 0 if the length does not fit.
struct Held {
    int64_t parts, part;
    int width;  // packs of columns per block
    Across across;

    // Returns the words that the blocks of a grid exchange, for `groups` rows or groups of columns with `columns` sums each.
    int64_t words(int64_t groups, int64_t columns) const { return across == kGrid ? groups * parts * columns : 0; }
};

// Maximum parts across a grid. With more parts a block would read more of the other parts' sums than of its own data.
constexpr int64_t kMostRowParts = 4096, kMostColumnParts = 512;

template <int V>
Held held_for(const Forward& args) {
    const int64_t cluster = V > 1 && has_clusters(args.device) ? kMaxCluster : 1;
    const auto in_parts = [&](int64_t length, int64_t of_block, int width, int64_t most) {
        const int64_t parts = divided_up(length, of_block);
        const Across across = parts == 1 ? kAlone : parts <= cluster ? kCluster : kGrid;
        return parts > (V > 1 ? most : 1) ? Held{} : Held{parts, divided_up(length, parts), width, across};
    };
    if (args.inner == 1) {
        const int64_t packs = args.length / V;
        return packs >= kWarp * kOfWarp ? in_parts(packs, kReduceThreads * kRowPacks, 1, kMostRowParts) : Held{};
    }
    const auto rows_of = [](int width) { return kReduceThreads / width * kColumnPacks; };
    int width = V > 1 ? kHeldWidth : kWarp;
    while (width < kWarp && rows_of(2 * width) >= args.length) width *= 2;
    width = std::min(width, power_for(args.inner / V));
    if (2 * args.length <= rows_of(kWarp)) return {};
    const bool by_strips = V > 1 && args.length > rows_of(width) &&
                           are_strips_enough(args.outer, args.length, args.inner / V, args.device);
    if (by_strips) return {1, args.length, kStripWidth, kStrips};
    return in_parts(args.length, rows_of(width), width, kMostColumnParts);
}

// Returns the number of rows or groups of columns; one or several blocks handle each.
template <int V>
int64_t groups_of(const Forward& args, const Held& held) {
    return args.inner == 1 ? args.outer : args.outer * divided_up(args.inner / V, held.width);
}

__global__ void __launch_bounds__(kReduceThreads) clear(uint64_t* words, int64_t count) {
    await_earlier();
    const int64_t at = int64_t{blockIdx.x} * kReduceThreads + threadIdx.x;
    if (at < count) words[at] = 0;
}

template <typename T, int V>
cudaError_t launch_held(const Forward& args, const Held& held) {
    const int64_t packs = (args.inner == 1 ? args.length : args.inner) / V;
    const int64_t groups = groups_of<V>(args, held), blocks = groups * held.parts;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    auto* words = static_cast<uint64_t*>(args.workspace);
    const unsigned cluster = held.across == kCluster ? unsigned(held.parts) : 1;
    const auto rows = [&](auto kernel) {
        const unsigned threads = block_for(held.part, kRowPacks);
        return launched_in_clusters(
            kernel, cluster, unsigned(blocks), threads, args.stream, x, y, words, packs, held.part, held.parts,
            args.reverse != 0);
    };
    const auto columns = [&](auto kernel) {
        return launched_in_clusters(
            kernel, cluster, unsigned(blocks), kReduceThreads, args.stream, x, y, words, args.length, packs, held.part,
            held.parts, held.width, args.reverse != 0);
    };
    if constexpr (V > 1) {
        if (held.across == kStrips) {
            return launch_strips(x, y, args.outer, args.length, packs, args.reverse != 0, args.stream);
        }
        if (held.across == kGrid) {
            const int64_t count = held.words(groups, args.inner == 1 ? 1 : held.width * V);
            const cudaError_t status = launched(
                clear, unsigned(divided_up(count, kReduceThreads)), kReduceThreads, args.stream, words, count);
            if (status != cudaSuccess) return status;
            return args.inner == 1 ? rows(held_rows<kGrid, T, V>) : columns(held_columns<kGrid, T, V>);
        }
#ifndef KW_PORTABLE_ONLY
        if (held.across == kCluster) {
            return args.inner == 1 ? rows(held_rows<kCluster, T, V>) : columns(held_columns<kCluster, T, V>);
        }
#endif
    }
    return args.inner == 1 ? rows(held_rows<kAlone, T, V>) : columns(held_columns<kAlone, T, V>);
}

inline int64_t forward_workspace(const Forward& args) {
    const auto of = [&](auto vector) {
        constexpr int V = decltype(vector)::value;
        const Held held = held_for<V>(args);
        if (held.parts > 0) {
            const int64_t columns = args.inner == 1 ? 1 : held.width * V;
            return held.words(groups_of<V>(args, held), columns) * int64_t{sizeof(uint64_t)};
        }
        const int64_t splits = shape_of<V>(args).splits;
        return splits > 1 ? args.outer * splits * args.inner * int64_t{sizeof(Partial<SumOf>)} : 0;
    };
    using Four = std::integral_constant<int, kVector<float>>;
    using Eight = std::integral_constant<int, kVector<__half>>;
    const int64_t vector = args.dtype == kFloat32 ? Four::value : Eight::value;
    if (!takes_vectors(args, vector)) return of(std::integral_constant<int, 1>{});
    return args.dtype == kFloat32 ? of(Four{}) : of(Eight{});
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const Held held = held_for<V>(args);
    if (held.parts > 0) return launch_held<T, V>(args, held);
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    if (args.inner == 1 && args.length <= kLongestShort * V) {
        return launch_short(x, y, args.outer, args.length / V, args.reverse != 0, args.stream);
    }
    const Shape shape = shape_of<V>(args);
    if (shape.blocks > kMaxGrid) return cudaErrorInvalidValue;
    auto* parts = shape.splits > 1 ? static_cast<Partial<SumOf>*>(args.workspace) : nullptr;
    if (parts != nullptr) {
        const Reduced<SumOf> sums = {parts, nullptr, nullptr, 1.0f, 0, false};
        const cudaError_t status = reduce_plain_pass<SumOf, T, V>(args.x, shape, sums, args.stream);
        if (status != cudaSuccess) return status;
    }
    const dim3 grid(unsigned(shape.blocks), unsigned(shape.splits));
    const auto* sums = static_cast<const Partial<SumOf>*>(parts);
    if (shape.by_rows) {
        return launched(
            along_rows<T, V>, grid, kReduceThreads, args.stream, x, y, sums, shape.outer, shape.length, shape.part(),
            shape.width, args.reverse != 0);
    }
    return launched(
        along_columns<T, V>, grid, kReduceThreads, args.stream, x, y, sums, shape.length, shape.inner, shape.part(),
        shape.width, args.reverse != 0);
}

inline cudaError_t forward(const Forward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (takes_vectors(args, kVector<T>)) return launch<T, kVector<T>>(args);
        return launch<T, 1>(args);
    });
}

}  // namespace kernelwright::cumsum
