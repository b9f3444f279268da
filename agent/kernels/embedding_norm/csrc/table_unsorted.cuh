// The gradient of an embedding's table from few unsorted ids. Every block scans all ids and keeps those of its own entries in
// order, because sorting would take longer than scanning and adding.
//
// Entries are assigned to blocks round-robin, since in many tables the frequent entries are adjacent.
#pragma once

#include <type_traits>

#include "../../csrc/launched.cuh"
#include "table.cuh"

namespace kernelwright::embedding_norm {

constexpr int kUnsortedWarps = 32;
constexpr int kUnsortedThreads = kUnsortedWarps * kWarp;
constexpr int kUnsortedBlocks = 128;  // a power of two; entries are assigned to blocks modulo this number
constexpr int kIdsUnder = 8;          // loads of ids in flight per thread
constexpr int kDealtRows = 8;         // loads in flight per thread for an entry of many rows
constexpr int kRowBits = 14;          // bits of a word for the row; the remaining bits are the entry
constexpr int64_t kMostUnsorted = int64_t{1} << kRowBits;  // maximum rows: one mask per lane has to cover a warp's share
constexpr int64_t kMostDealt = int64_t{kUnsortedBlocks} << (32 - kRowBits);  // maximum entries of the table
static_assert(kMostUnsorted <= int64_t{kUnsortedThreads} * kWarp);

// The rows of a block's entries, ascending. Each word packs the row and the index of the entry within the block.
struct Kept {
    const uint32_t* words;
    int count;

    // Returns the mask of the lanes whose word from `top` on belongs to `entry`; sets `row` to the lane's row.
    __device__ __forceinline__ unsigned at(int top, int end, unsigned entry, int* row) const {
        const int place = top + int(threadIdx.x) % kWarp;
        const uint32_t word = place < end ? words[place] : 0;
        *row = int(word & (kMostUnsorted - 1));
        return __ballot_sync(0xffffffff, place < end && word >> kRowBits == entry);
    }
};

// Collects all rows of the block's entries in `words`.
__device__ __forceinline__ Kept kept_rows(const TableBackward& args, uint32_t* words) {
    __shared__ int of_warp[kUnsortedWarps];
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp, rows = int(args.rows);
    const int each = (rows + kUnsortedThreads - 1) / kUnsortedThreads * kWarp;
    const int begin = warp * each, end = min(rows, begin + each);
    unsigned found = 0;  // lane i holds the mask of the warp's i-th group of 32 rows
    int count = 0;
    for (int top = begin; top < end; top += kIdsUnder * kWarp) {
        int64_t id[kIdsUnder];
        #pragma unroll
        for (int u = 0; u < kIdsUnder; ++u) {
            const int row = top + u * kWarp + lane;
            id[u] = row < end ? args.unsorted[row] : -1;
        }
        #pragma unroll
        for (int u = 0; u < kIdsUnder; ++u) {
            const bool is_entry = id[u] >= 0 && id[u] < args.entries && id[u] != args.padding;
            const unsigned mask = __ballot_sync(0xffffffff, is_entry && unsigned(id[u]) % kUnsortedBlocks == blockIdx.x);
            if (lane == (top - begin) / kWarp + u) found = mask;
            count += __popc(mask);
        }
    }
    if (lane == 0) of_warp[warp] = count;
    __syncthreads();
    int to = 0, all = 0;
    #pragma unroll 8
    for (int other = 0; other < kUnsortedWarps; ++other) {
        to += other < warp ? of_warp[other] : 0;
        all += of_warp[other];
    }
    for (unsigned which = __ballot_sync(0xffffffff, found != 0); which != 0; which &= which - 1) {
        const int i = __ffs(int(which)) - 1, row = begin + i * kWarp + lane;
        const unsigned mask = __shfl_sync(0xffffffff, found, i);
        if (mask >> lane & 1) {
            const unsigned entry = unsigned(args.unsorted[row]) / kUnsortedBlocks;
            words[to + __popc(mask & ((1u << lane) - 1))] = entry << kRowBits | unsigned(row);
        }
        to += __popc(mask);
    }
    __syncthreads();
    return {words, all};
}

// Sums an entry of more than kLongRun rows by the whole block: its warps add consecutive parts, which are then added in
// order.
template <typename T, int V>
__device__ __forceinline__ void sum_long_entry(const TableBackward& args, const Kept& kept, unsigned entry, int packs) {
    __shared__ float parts[kUnsortedWarps][kWarp * V];
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
    const int each = (kept.count + kUnsortedThreads - 1) / kUnsortedThreads * kWarp;
    const int end = min(kept.count, (warp + 1) * each);
    const auto* dx = static_cast<const Pack<T, V>*>(args.dx);
    auto* dtable = static_cast<T*>(args.dtable) + (int64_t{entry} * kUnsortedBlocks + blockIdx.x) * packs * V;
    for (int first = 0; first < packs; first += kWarp) {
        Pack<float, V> sum = {};
        for (int top = warp * each; top < end; top += kWarp) {
            int row;
            unsigned mask = kept.at(top, end, entry, &row);
            while (mask != 0) {
                Pack<T, V> taken[kDealtRows] = {};
                #pragma unroll
                for (int u = 0; u < kDealtRows; ++u) {
                    const int from = __shfl_sync(0xffffffff, row, max(0, __ffs(int(mask)) - 1));
                    if (mask != 0 && first + lane < packs) taken[u] = dx[int64_t{from} * packs + first + lane];
                    mask &= mask - 1;  // a mask of 0 stays 0
                }
                #pragma unroll
                for (int u = 0; u < kDealtRows; ++u) add(sum, taken[u]);
            }
        }
        #pragma unroll
        for (int k = 0; k < V; ++k) parts[warp][lane * V + k] = sum.v[k];
        __syncthreads();
        for (int i = int(threadIdx.x); i < kWarp * V && first * V + i < packs * V; i += kUnsortedThreads) {
            float all = 0.0f;
            #pragma unroll 8
            for (int other = 0; other < kUnsortedWarps; ++other) all += parts[other][i];
            dtable[first * V + i] = from_float<T>(all);
        }
        __syncthreads();
    }
}

// Writes an entry per warp, zeros if no row looked it up.
template <typename T, int V>
__global__ void __launch_bounds__(kUnsortedThreads) sum_unsorted(const TableBackward args, int packs) {
    extern __shared__ uint32_t words[];
    __shared__ int held[kUnsortedWarps][kWarp];
    __shared__ unsigned long_ones[kMostUnsorted / kLongRun];
    __shared__ unsigned longs;
    await_earlier();
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
    if (threadIdx.x == 0) longs = 0;
    const Kept kept = kept_rows(args, words);
    for (unsigned entry = warp;; entry += kUnsortedWarps) {
        const int64_t number = int64_t{entry} * kUnsortedBlocks + blockIdx.x;
        if (number >= args.entries) break;
        int count = 0;
        for (int top = 0; top < kept.count && count <= kLongRun; top += kWarp) {
            int row;
            const unsigned mask = kept.at(top, kept.count, entry, &row);
            const int place = count + __popc(mask & ((1u << lane) - 1));
            if ((mask >> lane & 1) != 0 && place < kWarp) held[warp][place] = row;
            count += __popc(mask);
        }
        if (count > kLongRun) {
            if (lane == 0) long_ones[atomicAdd(&longs, 1u)] = entry;
            continue;
        }
        __syncwarp();
        const int row = lane < count ? held[warp][lane] : 0;
        __syncwarp();
        write_entry(
            static_cast<const Pack<T, V>*>(args.dx), int64_t{row}, count,
            static_cast<Pack<T, V>*>(args.dtable) + number * packs, packs);
    }
    __syncthreads();
    for (unsigned i = 0; i < longs; ++i) sum_long_entry<T, V>(args, kept, long_ones[i], packs);
}

template <typename T, int V>
cudaError_t launch_unsorted(const TableBackward& args) {
    if (args.rows > kMostUnsorted || args.entries > kMostDealt) return cudaErrorInvalidValue;
    const auto kernel = sum_unsorted<T, V>;
    const int64_t bytes = args.rows * int64_t{sizeof(uint32_t)};
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    if (status != cudaSuccess) return status;
    return launched_with(
        kernel, unsigned(kUnsortedBlocks), unsigned(kUnsortedThreads), bytes, args.stream, args, int(args.length / V));
}

inline cudaError_t table_backward(const TableBackward& args) {
    return with_dtype(args.dtype, [&](auto element) {
        using T = decltype(element);
        const auto by = [&](auto vector) {
            constexpr int V = decltype(vector)::value;
            return args.unsorted == nullptr ? launch_sorted<T, V>(args) : launch_unsorted<T, V>(args);
        };
        const bool vectors = args.length % kVector<T> == 0 && aligned(args.dx) && aligned(args.dtable);
        return vectors ? by(std::integral_constant<int, kVector<T>>{}) : by(std::integral_constant<int, 1>{});
    });
}

}  // namespace kernelwright::embedding_norm
