// Argmax of few long rows in one launch: the blocks of a cluster share a row.
#pragma once

#include <cstring>

#include "../../csrc/cluster_sm90.cuh"
#include "../../csrc/reduce.cuh"

namespace kernelwright::reduction {

constexpr int kPlaceThreads = 1024;  // maximum threads of a block
constexpr int64_t kThreadsAtOnce = int64_t{132} * 1024;  // resident threads on 132 SMs, as their registers allow

template <typename State>
__device__ __forceinline__ State warp_largest(State state) {
    #pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) state = PlaceOf::merge(state, shuffled(state, offset));
    return state;
}

// Finds the argmax of a row. Each of the kMaxCluster blocks handles `part` packs of the row, and the first block writes the
// index.
template <typename T, int V>
__global__ void __launch_bounds__(kPlaceThreads) places_in_clusters(
    const Pack<T, V>* x, int64_t* places, int packs, int part) {
    await_earlier();
    using State = PlaceOf::State;
    static_assert(sizeof(State) == sizeof(uint64_t));
    __shared__ State of_warp[kMaxWarps];
    __shared__ uint64_t of_block[kMaxCluster];
    const int rank = int(blockIdx.x % kMaxCluster), begin = rank * part, size = min(part, packs - begin);
    const int64_t row = blockIdx.x / kMaxCluster;
    const int lane = int(threadIdx.x) % kWarp, warps = int(blockDim.x) / kWarp;
    State mine[V];
    #pragma unroll
    for (State& one : mine) one = PlaceOf::identity();
    take_packs<PlaceOf>(
        mine, x + row * packs + begin, 1, int(threadIdx.x), size, int(blockDim.x), begin * V, false, Streamed(false));
    let_next_begin();
    #pragma unroll
    for (int k = 1; k < V; ++k) mine[0] = PlaceOf::merge(mine[0], mine[k]);
    const State of_mine = warp_largest(mine[0]);
    if (lane == 0) of_warp[threadIdx.x / kWarp] = of_mine;
    __syncthreads();
    if (threadIdx.x < kWarp) {
        const State all = warp_largest(lane < warps ? of_warp[lane] : PlaceOf::identity());
        uint64_t word;
        memcpy(&word, &all, sizeof(all));
        if (lane == 0) sm90::store_in_block(of_block + rank, 0, word);
    }
    sm90::cluster_arrive();
    sm90::cluster_wait();
    if (rank != 0 || threadIdx.x >= kWarp) return;
    State all;
    memcpy(&all, &of_block[lane % kMaxCluster], sizeof(all));  // duplicates do not change the maximum
    all = warp_largest(all);
    if (lane == 0) places[row] = all.place;
}

// Returns the threads of a block if clusters handle all `rows`, each of `packs` packs, at once, or 0 if two passes are faster.
// The threads hold the row with kReducePacks packs each, or are fewer if the GPU has no room for as many.
template <int V>
unsigned place_threads(int64_t rows, int64_t packs, int64_t device) {
    const int64_t part = divided_up(packs, kMaxCluster), blocks = rows * kMaxCluster;
    int64_t threads = block_for(part, kReducePacks<V>);
    while (threads > kReduceThreads && blocks * threads > kThreadsAtOnce) threads = divided_up(threads / 2, kWarp) * kWarp;
    const bool is_held = part <= kReducePacks<V> * threads, is_full = 2 * blocks * threads >= kThreadsAtOnce;
    if (blocks * threads > kThreadsAtOnce || !(is_held || is_full) || part > kMaxPart || !has_clusters(device)) return 0;
    return unsigned(threads);
}

template <typename T, int V>
cudaError_t launch_places(
    const void* x, int64_t* places, int64_t rows, int64_t packs, unsigned threads, cudaStream_t stream) {
    return launched_in_clusters(
        places_in_clusters<T, V>, kMaxCluster, unsigned(rows * kMaxCluster), threads, stream,
        static_cast<const Pack<T, V>*>(x), places, int(packs), int(divided_up(packs, kMaxCluster)));
}

}  // namespace kernelwright::reduction
