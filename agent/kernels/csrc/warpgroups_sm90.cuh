// sm_90 instructions for warp-specialised blocks, and for wgmma products that stay in flight while earlier ones are
// accumulated. Not for the emulator.
#pragma once

#include "matrix_sm90.cuh"

namespace kernelwright::sm90 {

// Makes this thread's stores to shared memory visible to the tensor cores after the next barrier.
__device__ __forceinline__ void stores_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Makes this thread's stores visible to bulk copies issued after the next barrier. If the issuing thread calls it, the
// copies see what was stored before.
__device__ __forceinline__ void all_stores_made() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Barrier for THREADS threads of a block; the other threads may do other work. NUMBER is the barrier's id, not 0.
template <int NUMBER, int THREADS>
__device__ __forceinline__ void some_meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(THREADS) : "memory");
}

__device__ __forceinline__ int load_acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

// Barrier for all threads of a cluster's blocks.
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// The cluster's barrier in two steps. The arrival is relaxed: it publishes no stores and does not wait for any.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Arrives at the copy of `barrier` in block `rank` of the cluster, for data that the thread has already waited for. At
// the default block scope the thread's own accesses are not published to other blocks: that would take a full memory
// fence.
__device__ __forceinline__ void barrier_arrive_at(uint64_t* barrier, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// Copies global memory to the same shared address in several blocks, selected by the bits of `blocks`. The copy
// completes on each block's own barrier.
__device__ __forceinline__ void bulk_load_for_cluster(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                                      uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(blocks)
        : "memory");
}

// Raises (take) or lowers (give) the number of registers per thread of this warpgroup to COUNT.
template <int COUNT>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Commits the products issued since the last call as one group.
__device__ __forceinline__ void products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups except the last LATER, where d holds the sums of a finished group. The asm makes the compiler
// treat d as written here, not earlier.
template <int LATER, int N>
__device__ __forceinline__ void products_done(float (&d)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace kernelwright::sm90
