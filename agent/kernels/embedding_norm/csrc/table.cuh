// The gradient of an embedding's table: each entry gets the sum of the rows of dx that looked it up.
//
// The rows of an entry are added in order in float32 and every entry is written once, without atomics, so runs agree bitwise.
// In this file the ids are sorted, so that the rows of an entry are adjacent.
#pragma once

#include "../../csrc/add_norm.cuh"

namespace kernelwright::embedding_norm {

struct TableBackward {
    const void* dx;           // [rows, length]
    const int64_t* unsorted;  // [rows] ids, those outside the table ignored; null if the next two fields have them sorted
    const int32_t* ids;       // [rows], ascending
    const int64_t* order;     // row of dx of each sorted id, ascending among equal ids
    void* dtable;             // [entries, length]
    int64_t rows, length, entries;
    int64_t padding;          // the entry whose gradient is 0, or -1
    int64_t dtype;
    cudaStream_t stream;
    int64_t device;
};

constexpr int kTableWarps = 8;     // warps per block, each with an entry of its own
constexpr int kTablePacks = 2;     // packs of a row per lane
constexpr int kLongRun = 32;       // maximum rows of an entry that a warp adds; a block adds more
constexpr int kLongWarps = 32;
constexpr int kLongRows = 4;       // loads in flight per thread of a block that adds an entry of many rows

// Returns the index of the first of `count` ascending ids that is at least `id`, or `count`. All lanes of the warp call it.
__device__ __forceinline__ int64_t first_at_least(const int32_t* ids, int64_t count, int64_t id) {
    const int lane = int(threadIdx.x) % kWarp;
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t step = (high - low + kWarp - 1) / kWarp, probe = low + (lane + 1) * step - 1;
        const bool less = probe < high && ids[probe] < id;
        low += __popc(__ballot_sync(0xffffffff, less)) * step;
        high = min(high, low + step - 1);
    }
    return low;
}

template <typename T, int V>
__device__ __forceinline__ void add(Pack<float, V>& sum, const Pack<T, V>& pack) {
    #pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += to_float(pack.v[k]);
}

// Writes an entry by one warp: the sum of `count` rows, whose indices the first `count` lanes hold.
template <typename T, int V>
__device__ __forceinline__ void write_entry(
    const Pack<T, V>* dx, int64_t row, int count, Pack<T, V>* entry, int packs) {
    const int lane = int(threadIdx.x) % kWarp;
    for (int first = lane; first - lane < packs; first += kTablePacks * kWarp) {
        Pack<float, V> sums[kTablePacks] = {};
        for (int i = 0; i < count; ++i) {
            const Pack<T, V>* from = dx + __shfl_sync(0xffffffff, row, i) * packs;
            Pack<T, V> taken[kTablePacks];
            each_pack<kTablePacks>(first, kWarp, packs, [&](int u, int64_t at) { taken[u] = from[at]; });
            each_pack<kTablePacks>(first, kWarp, packs, [&](int u, int64_t) { add(sums[u], taken[u]); });
        }
        each_pack<kTablePacks>(first, kWarp, packs, [&](int u, int64_t at) {
            Pack<T, V> made;
            #pragma unroll
            for (int k = 0; k < V; ++k) made.v[k] = from_float<T>(sums[u].v[k]);
            entry[at] = made;
        });
    }
}

// Writes an entry per warp: zeros if no row looked it up. Entries of more than kLongRun rows are left to sum_long_runs.
template <typename T, int V>
__global__ void __launch_bounds__(kWarp * kTableWarps) sum_runs(TableBackward args, int packs) {
    const int64_t entry = int64_t{blockIdx.x} * kTableWarps + threadIdx.y;
    if (entry >= args.entries) return;
    const int lane = int(threadIdx.x);
    const int64_t begin = entry == args.padding ? args.rows : first_at_least(args.ids, args.rows, entry);
    const bool mine = begin + lane < args.rows && args.ids[begin + lane] == entry;
    const int count = __popc(__ballot_sync(0xffffffff, mine));
    if (count == kLongRun && begin + kLongRun < args.rows && args.ids[begin + kLongRun] == entry) return;
    const int64_t row = mine ? args.order[begin + lane] : 0;
    write_entry(
        static_cast<const Pack<T, V>*>(args.dx), row, count, static_cast<Pack<T, V>*>(args.dtable) + entry * packs, packs);
}

// Returns the entry whose run (adjacent rows of equal ids) has more than kLongRun rows, begins after `place` - kLongRun and
// covers `place`, or -1. Each such run has exactly one such place among the multiples of kLongRun. A run of 33 rows or more
// reaches 16 places past `place` on one side.
__device__ __forceinline__ int64_t long_run_at(const TableBackward& args, int64_t place) {
    const auto at = [&](int64_t other) {
        return other < 0 || other >= args.rows ? int64_t{-1} : int64_t{args.ids[other]};
    };
    const int64_t entry = at(place), before = at(place - kLongRun / 2), after = at(place + kLongRun / 2);
    if (entry < 0 || entry >= args.entries || entry == args.padding || at(place - kLongRun) == entry) return -1;
    if (before != entry && after != entry) return -1;
    const int64_t begin = first_at_least(args.ids, args.rows, entry);
    return at(begin + kLongRun) == entry ? entry : -1;
}

// Adds long runs. A block looks at kLongWarps places and writes some columns of the entries that more than kLongRun rows looked
// up. Its warps add consecutive parts of a run; the parts are then added in order.
template <typename T, int V>
__global__ void __launch_bounds__(kWarp * kLongWarps) sum_long_runs(TableBackward args, int packs) {
    __shared__ float parts[kLongWarps][kWarp * V];
    __shared__ int64_t found[kLongWarps];
    const int lane = int(threadIdx.x), warp = int(threadIdx.y);
    const int64_t mine = long_run_at(args, (int64_t{blockIdx.x} * kLongWarps + warp) * kLongRun);
    if (lane == 0) found[warp] = mine;
    __syncthreads();
    const int64_t at = int64_t{blockIdx.y} * kWarp + lane;
    const auto* dx = static_cast<const Pack<T, V>*>(args.dx) + at;
    for (int which = 0; which < kLongWarps; ++which) {
        const int64_t entry = found[which];
        if (entry < 0) continue;
        const int64_t begin = first_at_least(args.ids, args.rows, entry);
        const int64_t count = first_at_least(args.ids, args.rows, entry + 1) - begin;
        const int64_t each = (count + kLongWarps - 1) / kLongWarps, end = min(count, (warp + 1) * each);
        Pack<float, V> sum = {};
        for (int64_t i = warp * each; at < packs && i < end; i += kLongRows) {
            Pack<T, V> taken[kLongRows];
            #pragma unroll
            for (int u = 0; u < kLongRows; ++u) taken[u] = dx[args.order[begin + min(i + u, end - 1)] * packs];
            #pragma unroll
            for (int u = 0; u < kLongRows; ++u) {
                if (i + u < end) add(sum, taken[u]);
            }
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) parts[warp][k * kWarp + lane] = sum.v[k];
        __syncthreads();
        if (warp < V && at < packs) {
            float all = 0.0f;
            for (int other = 0; other < kLongWarps; ++other) all += parts[other][warp * kWarp + lane];
            static_cast<T*>(args.dtable)[(entry * packs + at) * V + warp] = from_float<T>(all);
        }
        __syncthreads();
    }
}

template <typename T, int V>
cudaError_t launch_sorted(const TableBackward& args) {
    const int64_t packs = args.length / V;
    const int64_t blocks = (args.entries + kTableWarps - 1) / kTableWarps;
    if (blocks > kMaxGrid) return cudaErrorInvalidValue;
    sum_runs<T, V><<<unsigned(blocks), dim3(kWarp, kTableWarps), 0, args.stream>>>(args, int(packs));
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess || args.rows <= kLongRun) return status;
    constexpr int64_t kEach = kLongWarps * kLongRun;
    const dim3 grid(unsigned((args.rows + kEach - 1) / kEach), unsigned((packs + kWarp - 1) / kWarp));
    sum_long_runs<T, V><<<grid, dim3(kWarp, kLongWarps), 0, args.stream>>>(args, int(packs));
    return cudaGetLastError();
}

}  // namespace kernelwright::embedding_norm
