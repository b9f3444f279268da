// Cumulative sums of a length held in the registers of one block, of a cluster, or of consecutive blocks of the grid: one read
// and one write.
#pragma once

#include "part.cuh"

#ifndef KW_PORTABLE_ONLY
#include "../../csrc/cluster_sm90.cuh"
#endif

namespace kernelwright::cumsum {

constexpr int kRowPacks = 8;      // packs of a row per thread
constexpr int kColumnPacks = 16;  // consecutive rows of a column per thread
constexpr int kHeldWidth = 8;     // packs of columns per block, for loads of 128 bytes

constexpr int64_t kLineBytes = 128;  // bytes of an L2 line
static_assert(kRowPacks * kVectorBytes == kLineBytes, "a thread asks for as much as it takes");

// Distribution of a length over one block, a cluster or the grid. kStrips does not hold it in registers (strips.cuh).
enum Across { kAlone, kCluster, kGrid, kStrips };

// Publishes a block's sum to the blocks after it. Sum and flag share one word, so that they become visible together. Parts are
// added in a fixed order, whichever arrives first. A block waits only for lower block indices, which have started earlier.
__device__ __forceinline__ void tell(uint64_t* to, float sum) {
    *reinterpret_cast<volatile uint64_t*>(to) = uint64_t{1} << 32 | __float_as_uint(sum);
}

// Words that a thread polls at once. A thread of a row needs one or two, and more would leave too few registers for the row.
constexpr int kRowsTold = 2, kColumnsTold = 8;

// Waits for `count` published words, `step` apart, and returns their sum.
template <int kAtOnce>
__device__ __forceinline__ float told(const uint64_t* from, int count, int64_t step) {
    const auto* words = reinterpret_cast<const volatile uint64_t*>(from);
    float sum = 0.0f;
    for (int first = 0; first < count; first += kAtOnce) {
        uint64_t word[kAtOnce];
        bool are_there;
        do {
            are_there = true;
            #pragma unroll
            for (int i = 0; i < kAtOnce; ++i) word[i] = first + i < count ? words[(first + i) * step] : uint64_t{1} << 32;
            #pragma unroll
            for (int i = 0; i < kAtOnce; ++i) are_there = are_there && word[i] >> 32 != 0;
        } while (!are_there);
        #pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sum += __uint_as_float(unsigned(word[i]));
    }
    return sum;
}

#ifndef KW_PORTABLE_ONLY
// Adds up the sums of the cluster's earlier blocks: `count` sums per block in `of_block`, results in `before`.
__device__ __forceinline__ void take_cluster(const Part& mine, int parts, int count, const float* of_block, float* before) {
    sm90::cluster_arrive();
    sm90::cluster_wait();
    for (int i = threadIdx.x; i < count; i += int(blockDim.x)) {
        float sum = 0.0f;
        for (int other = 0; other < parts; ++other) {
            if (mine.follows(other)) sum += sm90::load_from_block(of_block + i, other);
        }
        before[i] = sum;
    }
    sm90::cluster_arrive();
    __syncthreads();
}
#endif

// Distance in blocks of a prefetch into L2, one line per thread: each block waits for the slowest of its predecessors, so all
// loads should have similar latency. Data prefetched twice as far ahead would be evicted before use.
constexpr unsigned kAhead = 264;

template <typename T, int V>
__device__ __forceinline__ void ask_ahead(const Pack<T, V>* x, int64_t packs, int64_t part, int parts, bool reverse) {
#ifndef KW_PORTABLE_ONLY
    const unsigned block = blockIdx.x + kAhead;
    if (block >= gridDim.x) return;
    const int rank = int(block % unsigned(parts));
    const Part then(packs, part, reverse ? parts - 1 - rank : rank, reverse);
    const int64_t place = int64_t{threadIdx.x} * (kLineBytes / int64_t{sizeof(*x)});
    if (place >= then.size()) return;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + block / unsigned(parts) * packs + then.begin + place));
#endif
}

// Sums rows. A block holds up to kRowPacks packs per thread of a row; each warp handles consecutive packs.
template <Across kAcross, typename T, int V>
__global__ void __launch_bounds__(kReduceThreads, kAcross == kGrid ? 4 : 2) held_rows(
    const Pack<T, V>* x, Pack<T, V>* y, uint64_t* words, int64_t packs, int64_t part, int parts, bool reverse) {
    await_earlier();
    __shared__ float of_warp[kWarps];
    const int rank = int(blockIdx.x % unsigned(parts));
    const Part mine(packs, part, kAcross == kGrid && reverse ? parts - 1 - rank : rank, reverse);
    const int64_t row = blockIdx.x / unsigned(parts);
    const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp, warps = int(blockDim.x) / kWarp;
    const int first = warp * kWarp * kRowPacks + lane, left = int(mine.size()) - first;
    const int64_t at = row * packs + mine.at(first);
    const int step = reverse ? -kWarp : kWarp;
    Pack<T, V> held[kRowPacks];
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        if (u * kWarp < left) held[u] = x[at + u * step];
    }
    if constexpr (kAcross == kGrid) ask_ahead(x, packs, part, parts, reverse);
    if (reverse) {
        #pragma unroll
        for (auto& pack : held) pack = reversed(pack);
    }
    keep_stored(held);
    float before[kRowPacks], all = 0.0f;
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        float sum = 0.0f;
        #pragma unroll
        for (int k = 0; k < V; ++k) sum += to_float(held[u].v[k]);
        before[u] = u * kWarp < left ? sum : 0.0f;
    }
    keep_stored(held);
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        const float layer = __shfl_sync(0xffffffff, scanned(before[u], 1, kWarp), kWarp - 1);
        before[u] += all;
        all += layer;
    }
    if (lane == 0) of_warp[warp] = all;
    __syncthreads();
    float above = lane < warps ? of_warp[lane] : 0.0f;
    [[maybe_unused]] const float sums = scanned(above, 1, kWarp);
    float carry = __shfl_sync(0xffffffff, above, warp);
    if constexpr (kAcross == kGrid) {
        __shared__ float of_others[kMaxWarps];
        words += row * parts;
        if (threadIdx.x == kWarp - 1) tell(words + rank, sums);
        const int step = int(blockDim.x), here = rank - int(threadIdx.x);
        carry += block_reduce<Sum>(told<kRowsTold>(words + threadIdx.x, (here + step - 1) / step, step), of_others);
    }
#ifndef KW_PORTABLE_ONLY
    if constexpr (kAcross == kCluster) {
        __shared__ float of_block, of_others;
        if (threadIdx.x == kWarp - 1) of_block = sums;
        take_cluster(mine, parts, 1, &of_block, &of_others);
        carry += of_others;
    }
#endif
    #pragma unroll
    for (int u = 0; u < kRowPacks; ++u) {
        const float begin = before[u] + carry;
        float sum = 0.0f;
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(begin + (sum += to_float(held[u].v[k])));
        if (reverse) pack = reversed(pack);
        if (u * kWarp < left) y[at + u * step] = pack;
    }
#ifndef KW_PORTABLE_ONLY
    if constexpr (kAcross == kCluster) sm90::cluster_wait();
#endif
}

// Sums columns. A block is `width` packs of columns wide (a power of two up to 32). A thread handles kColumnPacks consecutive
// rows.
template <Across kAcross, typename T, int V>
__global__ void __launch_bounds__(kReduceThreads, 2) held_columns(
    const Pack<T, V>* x, Pack<T, V>* y, uint64_t* words, int64_t length, int64_t packs, int64_t part, int parts, int width,
    bool reverse) {
    await_earlier();
    __shared__ float of_warp[kWarps][kWarp][V];
    const unsigned groups = unsigned((packs + width - 1) / width), group = blockIdx.x / unsigned(parts);
    const int side = int(threadIdx.x) % width, warp = int(threadIdx.x) / kWarp;
    const int64_t outer = group / groups, column = group % groups * int64_t{width} + side;
    const int rank = int(blockIdx.x % unsigned(parts));
    const Part mine(length, part, kAcross == kGrid && reverse ? parts - 1 - rank : rank, reverse);
    const int first = int(threadIdx.x) / width * kColumnPacks;
    const int left = column < packs ? int(mine.size()) - first : 0;
    x += outer * length * packs + column;
    y += outer * length * packs + column;
    Pack<T, V> held[kColumnPacks];
    #pragma unroll
    for (int u = 0; u < kColumnPacks; ++u) {
        if (u < left) held[u] = x[mine.at(first + u) * packs];
    }
    keep_stored(held);
    float before[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        before[k] = 0.0f;
        #pragma unroll
        for (int u = 0; u < kColumnPacks; ++u) before[k] += u < left ? to_float(held[u].v[k]) : 0.0f;
    }
    keep_stored(held);
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const float all = scanned(before[k], width, kWarp);
        if (int(threadIdx.x) % kWarp >= kWarp - width) of_warp[warp][side][k] = all;
    }
    __syncthreads();
    const auto of_block_at = [&](int i) {
        float all = 0.0f;
        #pragma unroll
        for (int other = 0; other < kWarps; ++other) all += of_warp[other][i / V][i % V];
        return all;
    };
    if constexpr (kAcross == kGrid) {  // the threads of a column share the work of adding earlier parts
        __shared__ float of_others[kReduceThreads];
        const int columns = width * V, own = int(threadIdx.x) & (columns - 1), turn = int(threadIdx.x) / columns;
        const int turns = kReduceThreads / columns, here = rank - turn;
        words += int64_t{group} * parts * columns + own;
        if (turn == 0) tell(words + int64_t{rank} * columns, of_block_at(own));
        of_others[threadIdx.x] = told<kColumnsTold>(words + turn * columns, (here + turns - 1) / turns, turns * columns);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < V; ++k) {
            for (int i = side * V + k; i < kReduceThreads; i += columns) before[k] += of_others[i];
        }
    }
#ifndef KW_PORTABLE_ONLY
    if constexpr (kAcross == kCluster) {
        __shared__ float of_block[kWarp][V], of_others[kWarp][V];
        for (int i = threadIdx.x; i < width * V; i += kReduceThreads) of_block[i / V][i % V] = of_block_at(i);
        take_cluster(mine, parts, width * V, &of_block[0][0], &of_others[0][0]);
        #pragma unroll
        for (int k = 0; k < V; ++k) before[k] += of_others[side][k];
    }
#endif
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        #pragma unroll
        for (int other = 0; other < kWarps; ++other) {
            if (other < warp) before[k] += of_warp[other][side][k];
        }
    }
    float sums[V] = {};
    #pragma unroll
    for (int u = 0; u < kColumnPacks; ++u) {
        Pack<T, V> pack;
        #pragma unroll
        for (int k = 0; k < V; ++k) pack.v[k] = from_float<T>(before[k] + (sums[k] += to_float(held[u].v[k])));
        if (u < left) y[mine.at(first + u) * packs] = pack;
    }
#ifndef KW_PORTABLE_ONLY
    if constexpr (kAcross == kCluster) sm90::cluster_wait();
#endif
}

}  // namespace kernelwright::cumsum
