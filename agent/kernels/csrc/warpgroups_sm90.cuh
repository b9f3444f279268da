// Instructions of sm_90 for blocks whose warpgroups have different work, and for products that stay in flight while others
// are added up. Not for the emulator.
#pragma once

#include "matrix_sm90.cuh"

namespace kernelwright::sm90 {

// What this thread stored to shared memory is seen by the tensor cores once a barrier has been passed.
__device__ __forceinline__ void stores_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// What this thread stored anywhere is seen by copies that are asked for behind a barrier; or, run by who asks for them, what
// was stored before that.
__device__ __forceinline__ void all_stores_made() { asm volatile("fence.proxy.async;" ::: "memory"); }

// THREADS of a block meet, of which others may have other work; NUMBER is not 0.
template <int NUMBER, int THREADS>
__device__ __forceinline__ void some_meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(THREADS) : "memory");
}

__device__ __forceinline__ int load_acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

// All threads of a cluster's blocks.
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// The same in two steps, where nothing is told but that this thread has come: what it stored is not waited for.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// At the same barrier of another block of the cluster, for what has been waited for: of a thread's own accesses nothing is told
// beyond its block, which would take a fence of all memory.
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

// Global memory to the same place of several blocks, named by the bits of `blocks`; it completes on each one's own barrier.
__device__ __forceinline__ void bulk_load_for_cluster(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                                      uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(blocks)
        : "memory");
}

// Registers of a thread of this warpgroup, from here on.
template <int COUNT>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// The products issued since the last call are one group.
__device__ __forceinline__ void products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// All groups but the LATER last ones are done; d holds the sums of one that is. The compiler does not know that d changes
// until then.
template <int LATER, int N>
__device__ __forceinline__ void products_done(float (&d)[N]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    #pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace kernelwright::sm90
