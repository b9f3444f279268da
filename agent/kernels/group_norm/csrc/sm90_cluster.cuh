// Groups that the shared memory of a few blocks holds: what both directions share.
//
// The blocks of a cluster share out a group, and copy what they take into shared memory. They add it up as it arrives,
// hand each other their sums, and make the result of what they hold: one read, one write, and every SM at work where
// groups are fewer than SMs. Blocks are short, so that what every thread does once counts: the host divides.
#pragma once

#include "../../csrc/bulk_sm90.cuh"
#include "../../csrc/cluster_sm90.cuh"
#include "elements.cuh"
#include "sm90_activation.cuh"
#include "sm90_policy.cuh"
#include "sums.cuh"

namespace kernelwright::group_norm::sm90 {

using namespace kernelwright::sm90;

constexpr int kMaxClusterThreads = 512;
constexpr int kMaxBlocks = 8;  // that share out a row
constexpr int kMaxTiles = 32;  // packs that a thread holds of a tensor

// The blocks that share out a row: `count` of a cluster, from rank `first` on, this one the `mine`th of them.
struct Sharers {
    int first, count, mine;
};

// Where the warps of the blocks that share out a row leave their sums, in the shared memory of each of these.
struct Mailbox {
    double of_warp[2][kMaxBlocks * kMaxClusterThreads / kWarp];
    uint64_t all_came;

    // By the thread that makes the block's barriers. One block that has a row tells nobody, and it may be no cluster's.
    __device__ __forceinline__ void prepare(int blocks) {
        if (blocks == 1) return;
        barrier_init(&all_came);
        barrier_expect(&all_came, blocks * blockDim.x / kWarp * sizeof(Pair));
    }
};

// The sum over all threads of the blocks that share a row, in each of them and in one order; the lower half of a warp adds
// up `a`, the upper `b`. All blocks of the cluster have begun: so late may one write to another. A barrier of the cluster
// would wait for what was written to global memory as well.
__device__ __forceinline__ Pair cluster_sum(Pair mine, const Sharers& blocks, Mailbox& box) {
    const int lane = threadIdx.x % kHalf;
    const int half = half_of_lane();
    const int warps = blockDim.x / kWarp;
    const double sum = sum_by_halves(mine);
    double* place = box.of_warp[half] + blocks.mine * warps + threadIdx.x / kWarp;
    if (blocks.count == 1) {
        if (lane == 0) *place = sum;
        __syncthreads();
    } else {
        if (lane < blocks.count) send_to_block(place, blocks.first + lane, sum, &box.all_came);
        barrier_wait(&box.all_came, 0);
    }
    return sum_of_places(box.of_warp[half], blocks.count * warps);
}

// What tells the threads of a block what is there: a barrier for each tile, a pack for each thread, and one for the
// parameters.
struct Arrivals {
    uint64_t tiles[kMaxTiles];
    uint64_t parameters;
};

// The whole packs of a row that a block holds: from pack `begin` on, of which the first begins with element `head` of the
// row. Its ends (elements.cuh) are in no block's shared memory.
struct Holding {
    int begin, count;
    int head;

    // The element that is lane 0 of held pack i.
    template <int V>
    __device__ __forceinline__ int element(int i) const {
        return head + (begin + i) * V;
    }
};

// Whether one of the warp's packs ends in another channel than it begins in: then all are made as such a one, which costs
// the warp less than two ways.
__device__ __forceinline__ bool some_end_in_next(bool mine) { return __any_sync(__activemask(), mine); }

// The thread that takes an end of the row: of block 0, behind the warp that asks for packs.
__device__ __forceinline__ int end_taker(int rank) { return rank == 0 ? static_cast<int>(threadIdx.x) - kWarp : -1; }

// A block that holds `count` packs of a row of `blocks` makes its barriers and meets its cluster, before it waits for what
// was launched earlier. `more` makes what else there is.
template <class More>
__device__ __forceinline__ void prepare(Arrivals& arrivals, Mailbox& box, int count, int blocks, More more) {
    const int threads = blockDim.x;
    if (threadIdx.x == 0) {
        #pragma unroll 1  // here and below: cold code is what small calls wait for
        for (int tile = 0; tile * threads < count; ++tile) barrier_init(arrivals.tiles + tile);
        barrier_init(&arrivals.parameters, threads - kWarp);
        box.prepare(blocks);
        more();
        barriers_made();
    }
    __syncthreads();
    cluster_begun();
}

// Begins to copy what a block holds of each row of `from` to `to`, tile after tile, and weight and bias of `channels`
// channels to `affine`. The copy engine takes what memory delivers, so that the asking thread is held up: its warp does
// nothing else, and the others go on.
template <typename T, int TENSORS, class Call>
__device__ __forceinline__ void begin_loads(const T* const (&from)[TENSORS], Raw* const (&to)[TENSORS],
                                            const Holding& held, const Call& call, int first_channel, int channels,
                                            Affine* affine, Arrivals& arrivals, bool is_last_read) {
    constexpr int V = 16 / sizeof(T);
    const int threads = blockDim.x;
    if (threadIdx.x < kWarp) {
        if (threadIdx.x != 0) return;
        const uint64_t policy = policy_of(is_last_read);
        #pragma unroll 1
        for (int first = 0, tile = 0; first < held.count; first += threads, ++tile) {
            const uint32_t bytes = min(threads, held.count - first) * sizeof(Raw);
            barrier_expect(arrivals.tiles + tile, TENSORS * bytes);
            #pragma unroll
            for (int i = 0; i < TENSORS; ++i) {
                bulk_load(to[i] + first, from[i] + held.element<V>(first), bytes, arrivals.tiles + tile, policy);
            }
        }
        return;
    }
    #pragma unroll 1
    for (int c = threadIdx.x - kWarp; c < channels; c += threads - kWarp) {
        affine[c] = widened<T>(stored_affine<T>(call.weight, call.bias, call.param_dtype, first_channel + c));
    }
    barrier_arrive(&arrivals.parameters);
}

}  // namespace kernelwright::group_norm::sm90
