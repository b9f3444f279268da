// Cumulative sums of [outer, length, inner] along length, from the front or, for the gradient, from the back.
//
// A block, or a part of a warp, goes along its row, or a block along neighbouring columns, a tile at a time, and
// carries on what it has summed; the next tile is asked for before this one is summed. Where that makes too few blocks
// the length is split: the sums of the parts come first, and each block begins with those before its own. All is added
// in the same order on every run.
#pragma once

#include "../../csrc/reduce.cuh"

namespace kernelwright::cumsum {

struct Forward {
    const void* x;
    void* y;
    void* workspace;
    int64_t outer, length, inner;
    int64_t reverse;  // y is the sum from here to the end
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kTilePacks = 4;       // of a tile in one thread
constexpr int kWarps = kReduceThreads / kWarp;
constexpr int64_t kEnough = 256;    // blocks that keep memory busy without parts
constexpr int64_t kOfParts = 512;   // blocks that there are with parts

static_assert(kTilePacks * kWarps == kWarp, "a warp scans what the warps of a block have summed");

// The part of the length that a block goes along, in packs or columns' elements.
struct Part {
    int64_t begin, end;
    bool reverse;

    __device__ __forceinline__ Part(int64_t length, int64_t part, bool reverse)
        : begin(blockIdx.y * part), end(min(length, begin + part)), reverse(reverse) {}
    __device__ __forceinline__ int64_t size() const { return end - begin; }
    __device__ __forceinline__ int64_t at(int64_t i) const { return reverse ? end - 1 - i : begin + i; }
    // Whether part `other` is summed before this one.
    __device__ __forceinline__ bool follows(unsigned other) const {
        return reverse ? other > blockIdx.y : other < blockIdx.y;
    }
};

// Sums of the lanes before this one, `step` lanes from each other, in `own`; returns them with its own.
__device__ __forceinline__ float scanned(float& own, int step, int width) {
    float all = own;
    const int lane = int(threadIdx.x) % width;
    for (int offset = step; offset < width; offset *= 2) {
        const float other = __shfl_up_sync(0xffffffff, all, offset, width);
        if (lane >= offset) all += other;
    }
    const float before = __shfl_up_sync(0xffffffff, all, step, width);
    own = lane >= step ? before : 0.0f;
    return all;
}

// `group` threads take a row: a power of two up to the warp, or the block.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) along_rows(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, const Partial<SumOf>* parts, int64_t rows,
    int64_t packs, int64_t part, int group, bool reverse) {
    __shared__ float of_warp[2][kWarp], of_parts[kMaxWarps];
    const int64_t row = blockIdx.x * int64_t{kReduceThreads / group} + int(threadIdx.x) / group;
    const int lane = int(threadIdx.x) % group, warp = int(threadIdx.x) / kWarp, width = min(group, kWarp);
    const Part mine(packs, part, reverse);
    const int64_t size = row < rows ? mine.size() : 0;
    float carry = 0.0f;
    if (parts != nullptr) {
        for (unsigned i = threadIdx.x; i < gridDim.y; i += kReduceThreads) {
            if (mine.follows(i)) carry += parts[row * gridDim.y + i].state;
        }
        carry = block_reduce<Sum>(carry, of_parts);
    }
    x += row * packs;
    y += row * packs;
    Pack<T, V> next[kTilePacks];
    const auto ask = [&](int64_t first) {
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const int64_t i = first + u * group + lane;
            if (i < size) next[u] = x[mine.at(i)];
        }
    };
    ask(0);
    int buffer = 0;
    for (int64_t first = 0; first < mine.size(); first += kTilePacks * group, buffer ^= 1) {
        float values[kTilePacks][V], before[kTilePacks], layer[kTilePacks];
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const bool inside = first + u * group + lane < size;
            float sum = 0.0f;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                const float value = to_float(reverse ? next[u].v[V - 1 - k] : next[u].v[k]);
                values[u][k] = sum += inside ? value : 0.0f;
            }
            before[u] = sum;
        }
        ask(first + kTilePacks * group);
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            layer[u] = __shfl_sync(0xffffffff, scanned(before[u], 1, width), width - 1, width);
        }
        if (group > kWarp) {
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                if (lane % kWarp == 0) of_warp[buffer][u * kWarps + warp] = layer[u];
            }
            __syncthreads();
            float above = of_warp[buffer][threadIdx.x % kWarp];
            const float all = scanned(above, 1, kWarp);
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                before[u] += carry + __shfl_sync(0xffffffff, above, u * kWarps + warp);
            }
            carry += __shfl_sync(0xffffffff, all, kWarp - 1);
        } else {
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                before[u] += carry;
                carry += layer[u];
            }
        }
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            const int64_t i = first + u * group + lane;
            Pack<T, V> pack;
            #pragma unroll
            for (int k = 0; k < V; ++k) {
                pack.v[k] = from_float<T>(before[u] + (reverse ? values[u][V - 1 - k] : values[u][k]));
            }
            if (i < size) y[mine.at(i)] = pack;
        }
    }
}

// A block is `width` packs of columns wide, a power of two up to the warp; a thread takes neighbouring rows of a tile.
template <typename T, int V>
__global__ void __launch_bounds__(kReduceThreads) along_columns(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, const Partial<SumOf>* parts, int64_t length,
    int64_t packs, int64_t part, int width, bool reverse) {
    __shared__ float of_warp[2][kWarps][kWarp][V];
    const unsigned groups = unsigned((packs + width - 1) / width);
    const int64_t outer = blockIdx.x / groups;
    const int side = int(threadIdx.x) % width, warp = int(threadIdx.x) / kWarp;
    const int64_t column = blockIdx.x % groups * int64_t{width} + side;
    const int above = int(threadIdx.x) / width, height = kReduceThreads / width;
    const Part mine(length, part, reverse);
    const int64_t size = column < packs ? mine.size() : 0;
    float carry[V];
    #pragma unroll
    for (float& one : carry) one = 0.0f;
    if (parts != nullptr && column < packs) {
        for (unsigned i = 0; i < gridDim.y; ++i) {
            const auto* sums = parts + ((outer * gridDim.y + i) * packs + column) * V;
            #pragma unroll
            for (int k = 0; k < V; ++k) carry[k] += mine.follows(i) ? sums[k].state : 0.0f;
        }
    }
    x += outer * length * packs + column;
    y += outer * length * packs + column;
    Pack<T, V> next[kTilePacks];
    const auto ask = [&](int64_t first) {
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            if (first + u < size) next[u] = x[mine.at(first + u) * packs];
        }
    };
    ask(above * kTilePacks);
    int buffer = 0;
    for (int64_t tile = 0; tile < mine.size(); tile += kTilePacks * height, buffer ^= 1) {
        const int64_t first = tile + above * kTilePacks;
        float values[kTilePacks][V], before[V];
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            float sum = 0.0f;
            #pragma unroll
            for (int u = 0; u < kTilePacks; ++u) {
                values[u][k] = sum += first + u < size ? to_float(next[u].v[k]) : 0.0f;
            }
            before[k] = sum;
        }
        ask(first + kTilePacks * height);
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            const float all = scanned(before[k], width, kWarp);
            if (threadIdx.x % kWarp >= kWarp - width) of_warp[buffer][warp][side][k] = all;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            before[k] += carry[k];
            #pragma unroll
            for (int other = 0; other < kWarps; ++other) {
                const float sum = of_warp[buffer][other][side][k];
                if (other < warp) before[k] += sum;
                carry[k] += sum;
            }
        }
        #pragma unroll
        for (int u = 0; u < kTilePacks; ++u) {
            Pack<T, V> pack;
            #pragma unroll
            for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(before[k] + values[u][k]);
            if (first + u < size) y[mine.at(first + u) * packs] = pack;
        }
    }
}

constexpr int64_t kOfWarp = 16;  // packs of a row for each thread of a warp, up to which a warp takes it

// Parts where there are too few rows or columns; threads for a row that is whole.
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

inline int64_t forward_workspace(const Forward& args) {
    const int64_t vector = args.dtype == kFloat32 ? kVector<float> : kVector<__half>;
    const Shape shape = !takes_vectors(args, vector)     ? shape_of<1>(args)
                        : args.dtype == kFloat32 ? shape_of<kVector<float>>(args)
                                                 : shape_of<kVector<__half>>(args);
    const int64_t splits = shape.splits;
    return splits > 1 ? args.outer * splits * args.inner * int64_t{sizeof(Partial<SumOf>)} : 0;
}

template <typename T, int V>
cudaError_t launch(const Forward& args) {
    const Shape shape = shape_of<V>(args);
    if (shape.blocks > kMaxGrid) return cudaErrorInvalidValue;
    auto* parts = shape.splits > 1 ? static_cast<Partial<SumOf>*>(args.workspace) : nullptr;
    if (parts != nullptr) {
        const Reduced<SumOf> sums = {parts, nullptr, nullptr, 1.0f, 0, false};
        const cudaError_t status = reduce_pass<SumOf, T, V>(args.x, shape, sums, args.stream);
        if (status != cudaSuccess) return status;
    }
    const dim3 grid(unsigned(shape.blocks), unsigned(shape.splits));
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    if (shape.by_rows) {
        along_rows<T, V><<<grid, kReduceThreads, 0, args.stream>>>(
            x, y, parts, shape.outer, shape.length, shape.part(), shape.width, args.reverse != 0);
    } else {
        along_columns<T, V><<<grid, kReduceThreads, 0, args.stream>>>(
            x, y, parts, shape.length, shape.inner, shape.part(), shape.width, args.reverse != 0);
    }
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (takes_vectors(args, kVector<T>)) return launch<T, kVector<T>>(args);
        return launch<T, 1>(args);
    });
}

}  // namespace kernelwright::cumsum
