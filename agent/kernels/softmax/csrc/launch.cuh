// Softmax of [outer, length, inner] over length, forward and backward.
//
// A row that the registers of a block hold is read once; a longer one twice.
#pragma once

#include "../../csrc/partition.cuh"

namespace kernelwright::softmax {

struct Forward {
    const void* x;
    void* y;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

// dx = (dy - sum(dy * y)) * y
struct Backward {
    const void* dy;
    const void* y;
    void* dx;
    int64_t outer, length, inner;
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kHeld = 32;          // elements of a row that a thread has in registers
constexpr int kHalfVector = 4;     // of 16-bit elements
constexpr int kShortColumn = 32;
constexpr int kColumnThreads = 256;
constexpr int64_t kManyColumns = 65536;  // that keep the SMs busy with a thread each
constexpr int kBackwardHeld = 16;  // of each of two rows

// NaN for a row with inf, and for one of nothing but -inf, as in torch.
__device__ __forceinline__ float inverse(Partition all) { return isinf(all.max) ? NAN : 1.0f / all.sum; }

// What `load_tile` took, times `factor`.
template <typename T, int V, int N>
__device__ __forceinline__ void store_tile(
    const float (&tile)[N], float factor, Pack<T, V>* y, int64_t left, int step) {
    #pragma unroll
    for (int u = 0; u < N / V; ++u) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(tile[u * V + k] * factor);
        if (u * step < left) y[u * step] = pack;
    }
}

// A thread takes its exponentials below its own maximum, and one factor makes them those below the row's.
template <int N, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) resident_rows(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, int64_t rows, int packs) {
    __shared__ Partition of_warp[kMaxWarps];
    if (row_here() >= rows) return;
    const int64_t first = row_here() * packs + threadIdx.x;
    const int left = packs - int(threadIdx.x);
    const int step = int(blockDim.x);
    float tile[N];
    load_tile(x + first, left, step, 1, tile);
    const Partition mine = add_tile<T>({-INFINITY, 0.0f}, tile);
    const Partition all = block_merge(mine, of_warp);
    store_tile(tile, expf(mine.max - level_of(all.max)) * inverse(all), y + first, left, step);
}

template <typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) streamed_rows(
    const Pack<T, V>* __restrict__ x, Pack<T, V>* __restrict__ y, int64_t packs) {
    __shared__ Partition of_warp[kMaxWarps];
    x += blockIdx.x * packs;
    y += blockIdx.x * packs;
    const int step = int(blockDim.x);
    const Partition all = block_merge(partition<kTile>(x, threadIdx.x, packs, step, 1), of_warp);
    const float level = level_of(all.max);
    const float factor = inverse(all);
    for (int64_t first = threadIdx.x; first < packs; first += kTile / V * step) {
        float tile[kTile];
        load_tile(x + first, packs - first, step, 1, tile);
        #pragma unroll
        for (float& value : tile) value = exp_for<T>(value - level);
        store_tile(tile, factor, y + first, packs - first, step);
    }
}

template <typename T>
__global__ void columns(const T* __restrict__ x, T* __restrict__ y, int64_t length, int64_t inner) {
    __shared__ Partition of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    const Partition all = column_partition(x, here, length, inner, of_warp);
    if (!here.inside) return;
    const float level = level_of(all.max);
    const float factor = inverse(all);
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
        const int64_t at = here.base + i * inner;
        y[at] = from_float<T>(exp_for<T>(to_float(x[at]) - level) * factor);
    }
}

// A thread has a whole column of up to kShortColumn in its registers.
template <int N, typename T>
__global__ void __launch_bounds__(kColumnThreads) short_columns(
    const T* __restrict__ x, T* __restrict__ y, int64_t length, int64_t inner, int64_t count) {
    const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
    if (column >= count) return;
    const int64_t first = column / inner * length * inner + column % inner;
    float tile[N];
    #pragma unroll
    for (int i = 0; i < N; ++i) tile[i] = i < length ? to_float(x[first + i * inner]) : -INFINITY;
    const float factor = inverse(add_tile<T>({-INFINITY, 0.0f}, tile));
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        if (i < length) y[first + i * inner] = from_float<T>(tile[i] * factor);
    }
}

template <typename T, int V>
__device__ __forceinline__ float product(const Pack<T, V>& dy, const Pack<T, V>& y) {
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < V; ++k) sum += to_float(dy.v[k]) * to_float(y.v[k]);
    return sum;
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V> gradient(const Pack<T, V>& dy, const Pack<T, V>& y, float sum) {
    Pack<T, V> dx;
    #pragma unroll
    for (int k = 0; k < V; ++k) dx.v[k] = from_float<T>((to_float(dy.v[k]) - sum) * to_float(y.v[k]));
    return dx;
}

// The first packs of a row stay in registers; of a longer one the rest is read again.
template <int kPacks, typename T, int V>
__global__ void __launch_bounds__(kWarp* kMaxWarps) backward_rows(
    const Pack<T, V>* __restrict__ dy, const Pack<T, V>* __restrict__ y, Pack<T, V>* __restrict__ dx,
    int64_t rows, int64_t packs) {
    __shared__ float of_warp[kMaxWarps];
    if (row_here() >= rows) return;
    dy += row_here() * packs;
    y += row_here() * packs;
    dx += row_here() * packs;
    Pack<T, V> dy_tile[kPacks], y_tile[kPacks];
    const int step = int(blockDim.x);
    const int last = packs < kPacks * step ? int(packs) - 1 : kPacks * step - 1;
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {  // all are asked for before any is looked at
        const int at = min(int(threadIdx.x) + u * step, last);
        dy_tile[u] = dy[at];
        y_tile[u] = y[at];
    }
    float sum = 0.0f;
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        if (int(threadIdx.x) + u * step <= last) sum += product(dy_tile[u], y_tile[u]);
    }
    const int64_t rest = threadIdx.x + kPacks * step;
    for (int64_t at = rest; at < packs; at += step) sum += product(dy[at], y[at]);
    sum = block_reduce<Sum>(sum, of_warp);
    #pragma unroll
    for (int u = 0; u < kPacks; ++u) {
        const int at = int(threadIdx.x) + u * step;
        if (at <= last) dx[at] = gradient(dy_tile[u], y_tile[u], sum);
    }
    for (int64_t at = rest; at < packs; at += step) dx[at] = gradient(dy[at], y[at], sum);
}

template <typename T>
__global__ void backward_columns(
    const T* __restrict__ dy, const T* __restrict__ y, T* __restrict__ dx, int64_t length, int64_t inner) {
    __shared__ float of_warp[kColumnWarps][kWarp];
    const Column here = column_here(length, inner);
    float sum = 0.0f;
    if (here.inside) {
        for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
            const int64_t at = here.base + i * inner;
            sum += to_float(dy[at]) * to_float(y[at]);
        }
    }
    of_warp[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (!here.inside) return;
    sum = of_warp[0][threadIdx.x];
    for (int warp = 1; warp < int(blockDim.y); ++warp) sum += of_warp[warp][threadIdx.x];
    for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
        const int64_t at = here.base + i * inner;
        dx[at] = from_float<T>((to_float(dy[at]) - sum) * to_float(y[at]));
    }
}

template <typename T, int V>
cudaError_t launch_rows(const Forward& args) {
    const int64_t packs = args.length / V;
    const auto* x = static_cast<const Pack<T, V>*>(args.x);
    auto* y = static_cast<Pack<T, V>*>(args.y);
    const dim3 short_rows = rows_block(kWarp);
    const unsigned grid = rows_grid(args.outer, short_rows);
    if (packs <= kWarp) {
        resident_rows<V><<<grid, short_rows, 0, args.stream>>>(x, y, args.outer, int(packs));
    } else if (2 * V < kTile && packs <= 2 * kWarp) {
        resident_rows<2 * V><<<grid, short_rows, 0, args.stream>>>(x, y, args.outer, int(packs));
    } else if (4 * V < kTile && packs <= 4 * kWarp) {
        resident_rows<std::min(4 * V, kTile)><<<grid, short_rows, 0, args.stream>>>(x, y, args.outer, int(packs));
    } else if (8 * V < kTile && packs <= 8 * kWarp) {
        resident_rows<std::min(8 * V, kTile)><<<grid, short_rows, 0, args.stream>>>(x, y, args.outer, int(packs));
    } else if (args.length <= kWarp * kTile) {
        resident_rows<kTile><<<grid, short_rows, 0, args.stream>>>(x, y, args.outer, int(packs));
    } else if (args.length <= kWarp * kMaxWarps * kHeld) {
        resident_rows<kHeld>
            <<<unsigned(args.outer), block_for(packs, kHeld / V), 0, args.stream>>>(x, y, args.outer, int(packs));
    } else {
        streamed_rows<<<unsigned(args.outer), kWarp * kMaxWarps, 0, args.stream>>>(x, y, packs);
    }
    return cudaGetLastError();
}

inline cudaError_t forward(const Forward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1 && args.length <= kShortColumn && args.outer * args.inner >= kManyColumns) {
            const int64_t count = args.outer * args.inner;
            const unsigned grid = unsigned((count + kColumnThreads - 1) / kColumnThreads);
            const auto* x = static_cast<const T*>(args.x);
            auto* y = static_cast<T*>(args.y);
            if (args.length <= kShortColumn / 4) {
                short_columns<kShortColumn / 4>
                    <<<grid, kColumnThreads, 0, args.stream>>>(x, y, args.length, args.inner, count);
            } else {
                short_columns<kShortColumn>
                    <<<grid, kColumnThreads, 0, args.stream>>>(x, y, args.length, args.inner, count);
            }
            return cudaGetLastError();
        }
        if (args.inner > 1) {
            columns<T><<<unsigned(column_blocks(args.outer, args.inner)), column_block(args.length), 0, args.stream>>>(
                static_cast<const T*>(args.x), static_cast<T*>(args.y), args.length, args.inner);
            return cudaGetLastError();
        }
        if (args.length % kVector<T> == 0 && aligned(args.x) && aligned(args.y)) {
            return launch_rows<T, kVector<T>>(args);
        }
        if constexpr (sizeof(T) < sizeof(float)) {  // rows of 8 bytes, as 1500 elements have
            if (args.length % kHalfVector == 0 && aligned(args.x) && aligned(args.y)) {
                return launch_rows<T, kHalfVector>(args);
            }
        }
        return launch_rows<T, 1>(args);
    });
}

template <typename T, int V>
cudaError_t launch_backward_rows(const Backward& args) {
    const int64_t packs = args.length / V;
    const auto* dy = static_cast<const Pack<T, V>*>(args.dy);
    const auto* y = static_cast<const Pack<T, V>*>(args.y);
    auto* dx = static_cast<Pack<T, V>*>(args.dx);
    constexpr int kPacks = kBackwardHeld / V;
    const dim3 block = rows_block(block_for(packs, kPacks));
    const unsigned grid = rows_grid(args.outer, block);
    if (packs <= kWarp) {
        backward_rows<1><<<grid, block, 0, args.stream>>>(dy, y, dx, args.outer, packs);
    } else if (packs <= 2 * kWarp) {
        backward_rows<2><<<grid, block, 0, args.stream>>>(dy, y, dx, args.outer, packs);
    } else if (4 < kPacks && packs <= 4 * kWarp) {
        backward_rows<std::min(4, kPacks)><<<grid, block, 0, args.stream>>>(dy, y, dx, args.outer, packs);
    } else if (8 < kPacks && packs <= 8 * kWarp) {
        backward_rows<std::min(8, kPacks)><<<grid, block, 0, args.stream>>>(dy, y, dx, args.outer, packs);
    } else {
        backward_rows<kPacks><<<grid, block, 0, args.stream>>>(dy, y, dx, args.outer, packs);
    }
    return cudaGetLastError();
}

inline cudaError_t backward(const Backward& args) {
    if (args.outer > kMaxGrid || column_blocks(args.outer, args.inner) > kMaxGrid) return cudaErrorInvalidValue;
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        if (args.inner > 1) {
            const unsigned grid = unsigned(column_blocks(args.outer, args.inner));
            backward_columns<T><<<grid, column_block(args.length), 0, args.stream>>>(
                static_cast<const T*>(args.dy), static_cast<const T*>(args.y), static_cast<T*>(args.dx), args.length,
                args.inner);
            return cudaGetLastError();
        }
        if (args.length % kVector<T> == 0 && aligned(args.dy) && aligned(args.y) && aligned(args.dx)) {
            return launch_backward_rows<T, kVector<T>>(args);
        }
        if constexpr (sizeof(T) < sizeof(float)) {
            if (args.length % kHalfVector == 0 && aligned(args.dy) && aligned(args.y) && aligned(args.dx)) {
                return launch_backward_rows<T, kHalfVector>(args);
            }
        }
        return launch_backward_rows<T, 1>(args);
    });
}

}  // namespace kernelwright::softmax
