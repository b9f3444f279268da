// Shared memory that threads hand over to others, right and wrong: what is called _race lacks one thing that the kernel before
// it has. For the emulator's check of races, and to see which of them compute-sanitizer's racecheck follows
// (python -m tests.gpu.racecheck).
#include "../../../agent/kernels/csrc/cluster_sm90.cuh"
// The other header names two steps of a cluster's meeting as this one does.
#define cluster_arrive cluster_arrive_relaxed
#define cluster_wait cluster_wait_acquire
#include "../../../agent/kernels/csrc/warpgroups_sm90.cuh"
#undef cluster_arrive
#undef cluster_wait

using namespace kernelwright::sm90;

constexpr int kThreads = 128, kStages = 4, kRounds = 16, kHalf = kThreads / 2;

#define KERNEL extern "C" __global__ void __launch_bounds__(kThreads)

__device__ __forceinline__ bool is_first_lane() { return threadIdx.x % 32 == 0; }
__device__ __forceinline__ void make(uint64_t* barrier, int arrivals) {
    if (threadIdx.x == 0) {
        barrier_init(barrier, arrivals);
        barriers_made();
    }
    __syncthreads();
}
__device__ __forceinline__ void arrive_at_for_cluster(uint64_t* barrier, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}
__device__ __forceinline__ void wait_for_cluster(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// --- Each warp gives 32 values to the next: out[t] = in[(t + 32) % 128]. ---
#define EXCHANGE(name, arrivals, ...) \
    KERNEL name(const int* in, int* out) { \
        __shared__ int values[kThreads]; \
        __shared__ uint64_t barrier[1]; \
        const int t = threadIdx.x; \
        make(barrier, arrivals); \
        values[t] = in[blockIdx.x * kThreads + t]; \
        __VA_ARGS__ \
        out[blockIdx.x * kThreads + t] = values[(t + 32) % kThreads]; \
    }

EXCHANGE(all_meet, 1, __syncthreads();)
EXCHANGE(nobody_meets_race, 1, )
EXCHANGE(warps_meet_race, 1, __syncwarp();)
EXCHANGE(all_meet_by_number, 1, some_meet<1, kThreads>();)
EXCHANGE(halves_meet_race, 1, if (t < kHalf) some_meet<1, kHalf>(); else some_meet<2, kHalf>();)
EXCHANGE(all_arrive, kThreads, barrier_arrive(barrier); barrier_wait(barrier, 0);)
EXCHANGE(nobody_waits_race, kThreads, barrier_arrive(barrier);)
EXCHANGE(lane_arrives, 4, __syncwarp(); if (is_first_lane()) barrier_arrive(barrier); barrier_wait(barrier, 0);)
EXCHANGE(lane_arrives_alone_race, 4, if (is_first_lane()) barrier_arrive(barrier); barrier_wait(barrier, 0);)
EXCHANGE(lane_waits, kThreads, barrier_arrive(barrier); if (is_first_lane()) barrier_wait(barrier, 0); __syncwarp();)
EXCHANGE(lane_waits_alone_race, kThreads, barrier_arrive(barrier); if (is_first_lane()) barrier_wait(barrier, 0);)
EXCHANGE(half_arrives, 2, if (t < kHalf) some_meet<1, kHalf>(); else some_meet<2, kHalf>();
         if (t % kHalf == 0) barrier_arrive(barrier);
         barrier_wait(barrier, 0);)
EXCHANGE(lane_arrives_by_rank, 4, __syncwarp(); if (is_first_lane()) barrier_arrive_at(barrier, 0); barrier_wait(barrier, 0);)
EXCHANGE(cluster_of_one_meets, 1, cluster_meet();)
EXCHANGE(cluster_meets_relaxed_race, 1, asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");)

// --- Within a warp: out[t] = in[t ^ 1]. ---
#define PAIR(name, ...) \
    KERNEL name(const int* in, int* out) { \
        __shared__ int values[kThreads]; \
        const int t = threadIdx.x; \
        values[t] = in[blockIdx.x * kThreads + t]; \
        __VA_ARGS__ \
        out[blockIdx.x * kThreads + t] = values[t ^ 1]; \
    }

PAIR(lanes_meet, __syncwarp();)
PAIR(lanes_do_not_meet_race, )

// --- A ring of stages: 64 threads fill it and 64 empty it; out[t] is the sum of in[round * 64 + (t + 32) % 64] over rounds. ---
// Who arrives for a warp: all of its lanes; one, once they have met; or one that does not wait for the others.
enum Arrival { kAll, kLane, kAlone };

__device__ constexpr int arrivals_of(Arrival arrival, int threads) { return arrival == kAll ? threads : threads / 32; }

template <Arrival HOW>
__device__ __forceinline__ void come(uint64_t* barrier) {
    if (HOW == kLane) __syncwarp();
    if (HOW == kAll || is_first_lane()) barrier_arrive(barrier);
}

struct Ring {
    int* values;
    uint64_t *full, *free;

    __device__ __forceinline__ void make(int of_full, int of_free) const {
        if (threadIdx.x == 0) {
            for (int i = 0; i < kStages; ++i) barrier_init(full + i, of_full), barrier_init(free + i, of_free);
            barriers_made();
        }
        __syncthreads();
    }
    __device__ __forceinline__ void wait_free(int round) const { barrier_wait(free + round % kStages, round / kStages % 2 ^ 1); }
    __device__ __forceinline__ void wait_full(int round) const { barrier_wait(full + round % kStages, round / kStages % 2); }
    __device__ __forceinline__ int* stage(int round) const { return values + round % kStages * kHalf; }
};

// What is waited for too late is a race.
template <Arrival FREE, bool WAITS>
__device__ __forceinline__ int emptied(const Ring& ring) {
    int sum = 0;
    for (int i = 0; i < kRounds; ++i) {
        if (WAITS) ring.wait_full(i);
        sum += ring.stage(i)[(threadIdx.x + 32) % kHalf];
        if (!WAITS) ring.wait_full(i);
        come<FREE>(ring.free + i % kStages);
    }
    return sum;
}

template <Arrival FULL, bool WAITS>
__device__ __forceinline__ void filled(const Ring& ring, const int* in, int thread) {
    for (int i = 0; i < kRounds; ++i) {
        if (WAITS) ring.wait_free(i);
        ring.stage(i)[thread] = in[i * kHalf + thread];
        if (!WAITS) ring.wait_free(i);
        come<FULL>(ring.full + i % kStages);
    }
}

__device__ __forceinline__ void copied(const Ring& ring, const int* in, int count) {
    for (int i = 0; i < kRounds; ++i) {
        ring.wait_free(i);
        barrier_expect(ring.full + i % kStages, count * sizeof(int));
        bulk_load(ring.stage(i), in + i * kHalf, count * sizeof(int), ring.full + i % kStages);
    }
}

#define RING_IN_SHARED_MEMORY \
    __shared__ alignas(128) int values[kStages * kHalf]; \
    __shared__ uint64_t barriers[2 * kStages]; \
    const Ring ring = {values, barriers, barriers + kStages};

template <Arrival FULL, Arrival FREE, bool FILLS_IN_TIME = true, bool EMPTIES_IN_TIME = true>
__device__ __forceinline__ void by_stores(const int* in, int* out) {
    RING_IN_SHARED_MEMORY
    ring.make(arrivals_of(FULL, kHalf), arrivals_of(FREE, kHalf));
    if (threadIdx.x < kHalf) filled<FULL, FILLS_IN_TIME>(ring, in, threadIdx.x);
    else out[blockIdx.x * kHalf + threadIdx.x % kHalf] = emptied<FREE, EMPTIES_IN_TIME>(ring);
}

template <Arrival FREE, bool EMPTIES_IN_TIME = true>
__device__ __forceinline__ void by_copies(const int* in, int* out) {
    RING_IN_SHARED_MEMORY
    ring.make(1, arrivals_of(FREE, kHalf));
    if (threadIdx.x == 0) copied(ring, in, kHalf);
    if (threadIdx.x >= kHalf) out[blockIdx.x * kHalf + threadIdx.x % kHalf] = emptied<FREE, EMPTIES_IN_TIME>(ring);
}

// Half of a stage is copied by a thread of the first warp, the other half stored by the second.
template <Arrival FULL, Arrival FREE>
__device__ __forceinline__ void by_both(const int* in, int* out) {
    RING_IN_SHARED_MEMORY
    ring.make(1 + arrivals_of(FULL, 32), arrivals_of(FREE, kHalf));
    if (threadIdx.x == 0) copied(ring, in, kHalf / 2);
    else if (threadIdx.x / 32 == 1) filled<FULL, true>(ring, in, threadIdx.x);
    if (threadIdx.x >= kHalf) out[blockIdx.x * kHalf + threadIdx.x % kHalf] = emptied<FREE, true>(ring);
}

#define RING(name, ...) \
    KERNEL name(const int* in, int* out) { __VA_ARGS__(in, out); }

RING(ring_all_arrive, by_stores<kAll, kAll>)
RING(ring_lanes_arrive, by_stores<kLane, kLane>)
RING(ring_lanes_fill, by_stores<kLane, kAll>)
RING(ring_lanes_free, by_stores<kAll, kLane>)
RING(ring_filled_alone_race, by_stores<kAlone, kAll>)
RING(ring_freed_alone_race, by_stores<kAll, kAlone>)
RING(ring_filled_early_race, by_stores<kLane, kLane, false>)
RING(ring_emptied_early_race, by_stores<kLane, kLane, true, false>)
RING(copies_all_free, by_copies<kAll>)
RING(copies_lanes_free, by_copies<kLane>)
RING(copies_freed_alone_race, by_copies<kAlone>)
RING(copies_emptied_early_race, by_copies<kLane, false>)
RING(both_all_arrive, by_both<kAll, kAll>)
RING(both_lanes_arrive, by_both<kLane, kLane>)
RING(both_filled_alone_race, by_both<kAlone, kAll>)

// --- One bulk copy: out[t] = in[(t + 32) % 128]. ---
#define COPY(name, before, after) \
    KERNEL name(const int* in, int* out) { \
        __shared__ alignas(128) int values[kThreads]; \
        __shared__ uint64_t barrier[1]; \
        const int t = threadIdx.x; \
        make(barrier, 1); \
        before \
        if (t == 0) { \
            barrier_expect(barrier, sizeof(values)); \
            bulk_load(values, in + blockIdx.x * kThreads, sizeof(values), barrier); \
        } \
        after \
        out[blockIdx.x * kThreads + t] = values[(t + 32) % kThreads]; \
        barrier_wait(barrier, 0); \
    }
#define USED_BEFORE \
    values[t] = t; \
    __syncthreads(); \
    if (values[(t + 1) % kThreads] < 0) return; \
    all_stores_made();

COPY(copy_all_wait, , barrier_wait(barrier, 0);)
COPY(copy_one_waits, , if (t == 0) barrier_wait(barrier, 0); __syncthreads();)
COPY(copy_not_waited_race, , )
COPY(copy_over_values, USED_BEFORE __syncthreads();, barrier_wait(barrier, 0);)
COPY(copy_over_values_cluster_meets, USED_BEFORE cluster_meet();, barrier_wait(barrier, 0);)
COPY(copy_over_values_race, USED_BEFORE, barrier_wait(barrier, 0);)

// --- Two blocks of a cluster: out[b * 128 + t] = in[(b ^ 1) * 128 + t]. ---
#define CLUSTER(name, arrivals, ...) \
    KERNEL name(const int* in, int* out) { \
        __shared__ double values[kThreads]; \
        __shared__ uint64_t barrier[1]; \
        const int t = threadIdx.x, other = cluster_rank() ^ 1; \
        make(barrier, arrivals); \
        cluster_meet(); \
        store_in_block(values + t, other, in[blockIdx.x * kThreads + t]); \
        __VA_ARGS__ \
        out[blockIdx.x * kThreads + t] = static_cast<int>(values[t]); \
        cluster_meet(); \
    }

CLUSTER(blocks_meet, 1, cluster_meet();)
CLUSTER(blocks_meet_relaxed_race, 1, asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");)
CLUSTER(blocks_do_not_meet_race, 1, __syncthreads();)
CLUSTER(blocks_all_arrive, kThreads, arrive_at_for_cluster(barrier, other); wait_for_cluster(barrier, 0);)
CLUSTER(blocks_lanes_arrive, 4, __syncwarp(); if (is_first_lane()) arrive_at_for_cluster(barrier, other);
        wait_for_cluster(barrier, 0);)
CLUSTER(blocks_arrive_alone_race, 4, if (is_first_lane()) arrive_at_for_cluster(barrier, other); wait_for_cluster(barrier, 0);)

// --- A ring of two blocks: each copies half of every stage for both, and both empty it. ---
template <Arrival FREE, bool WAITS>
__device__ __forceinline__ void by_cluster(const int* in, int* out) {
    constexpr int kPart = kHalf / 2;
    RING_IN_SHARED_MEMORY
    ring.make(1, 2 * arrivals_of(FREE, kHalf));
    cluster_meet();
    if (threadIdx.x == 0) {
        const int at = cluster_rank() * kPart;
        for (int i = 0; i < kRounds; ++i) {
            ring.wait_free(i);
            barrier_expect(ring.full + i % kStages, 2 * kPart * sizeof(int));
            bulk_load_for_cluster(ring.stage(i) + at, in + i * kHalf + at, kPart * sizeof(int), ring.full + i % kStages, 3);
        }
    }
    if (threadIdx.x >= kHalf) {
        int sum = 0;
        for (int i = 0; i < kRounds; ++i) {
            if (WAITS) ring.wait_full(i);
            sum += ring.stage(i)[(threadIdx.x + 32) % kHalf];
            if (!WAITS) ring.wait_full(i);
            if (FREE == kLane) __syncwarp();
            for (int rank = 0; rank < 2; ++rank) {
                if (FREE == kAll || threadIdx.x % 32 == rank) barrier_arrive_at(ring.free + i % kStages, rank);
            }
        }
        out[blockIdx.x * kHalf + threadIdx.x % kHalf] = sum;
    }
    cluster_meet();
}

RING(shared_ring_all_arrive, by_cluster<kAll, true>)
RING(shared_ring_lanes_arrive, by_cluster<kLane, true>)
RING(shared_ring_freed_alone_race, by_cluster<kAlone, true>)
RING(shared_ring_emptied_early_race, by_cluster<kLane, false>)
