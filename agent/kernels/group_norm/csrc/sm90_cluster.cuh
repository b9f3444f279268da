// Groups that fit into the shared memory of a few blocks: code shared by forward and backward.
//
// The blocks of a cluster share a group and copy their parts into shared memory. They sum the packs as they arrive,
// exchange their sums, and compute the result from what they hold: one read and one write, with every SM at work even
// if groups are fewer than SMs. Blocks are short-lived, so that fixed work per thread counts: the host prepares the
// divisions.
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
constexpr int kMaxBlocks = 8;  // maximum blocks that share a row
constexpr int kMaxTiles = 32;  // packs of a tensor that a thread holds

// The blocks that share a row: `count` blocks of a cluster, from rank `first` on. This block is number `mine` among
// them.
struct Sharers {
    int first, count, mine;
};

// Sums of all warps of the blocks that share a row. Each of these blocks has a copy in its shared memory.
struct Mailbox {
    double of_warp[2][kMaxBlocks * kMaxClusterThreads / kWarp];
    uint64_t all_came;

    // Initialises the mailbox's barrier; called by the thread that initialises the block's barriers. A block that has a
    // row alone sends no sums and may be outside any cluster.
    __device__ __forceinline__ void prepare(int blocks) {
        if (blocks == 1) return;
        barrier_init(&all_came);
        barrier_expect(&all_came, blocks * blockDim.x / kWarp * sizeof(Pair));
    }
};

// Sums over all threads of the blocks that share a row, in a fixed order; each thread gets the result. The lower half
// of a warp sums `a`, the upper half `b`. All blocks of the cluster must have started, since a block may only then
// write to another. A cluster barrier here would also wait for writes to global memory.
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

// Barriers that signal arrivals to the threads of a block: one for each tile (a pack per thread), and one for the
// parameters.
struct Arrivals {
    uint64_t tiles[kMaxTiles];
    uint64_t parameters;
};

// The whole packs of a row that a block holds, from pack `begin` on. The row's first whole pack begins with its element
// `head`. The ends of a row (elements.cuh) are not in shared memory.
struct Holding {
    int begin, count;
    int head;

    // Returns the row element that is lane 0 of held pack i.
    template <int V>
    __device__ __forceinline__ int element(int i) const {
        return head + (begin + i) * V;
    }
};

// Returns true if a pack of any lane in the warp extends into the next channel. All lanes then take the branch for two
// channels, which costs less than divergence.
__device__ __forceinline__ bool some_end_in_next(bool mine) { return __any_sync(__activemask(), mine); }

// Returns the number of the row's end element that this thread handles. Only threads of block 0 handle one, starting
// behind the warp that issues the copies.
__device__ __forceinline__ int end_taker(int rank) { return rank == 0 ? static_cast<int>(threadIdx.x) - kWarp : -1; }

// Initialises the barriers of a block and arrives at the cluster barrier, before waiting for earlier launches. The
// block holds `count` packs of a row shared by `blocks` blocks. `more` initialises further barriers.
template <class More>
__device__ __forceinline__ void prepare(Arrivals& arrivals, Mailbox& box, int count, int blocks, More more) {
    const int threads = blockDim.x;
    if (threadIdx.x == 0) {
        #pragma unroll 1  // here and below: instruction fetches of code that runs once dominate small calls
        for (int tile = 0; tile * threads < count; ++tile) barrier_init(arrivals.tiles + tile);
        barrier_init(&arrivals.parameters, threads - kWarp);
        box.prepare(blocks);
        more();
        barriers_made();
    }
    __syncthreads();
    cluster_begun();
}

// Starts the copies of the block's part of each row of `from` to `to`, tile by tile, and loads weight and bias of
// `channels` channels to `affine`. The copy engine accepts copies at the rate of memory, so that the issuing thread
// stalls. Its warp has no other work, and the other warps go on.
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
