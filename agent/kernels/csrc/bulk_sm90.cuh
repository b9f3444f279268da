// Instructions of sm_90: barriers in shared memory, bulk copies that complete on them, and the loads and stores by which
// blocks wait for each other. Not for the emulator.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::sm90 {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A phase is over after `arrivals` and the bytes that were named with them.
__device__ __forceinline__ void barrier_init(uint64_t* barrier, uint32_t arrivals = 1) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes barriers known to the copy engine; once, by the thread that made them, before the block goes on.
__device__ __forceinline__ void barriers_made() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// By each thread, before it arrives where bulk_load is to overwrite what it has read: an arrival alone does not hold the copy
// engine back until ordinary loads have their values (docs/adr/0028).
__device__ __forceinline__ void reads_made() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// What will be read again should stay.
__device__ __forceinline__ uint64_t evict_last() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Global to shared memory; both addresses and the size are multiples of 16.
__device__ __forceinline__ void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier,
                                          uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
        : "memory");
}

__device__ __forceinline__ double load_relaxed(const double* from) {
    double value;
    asm volatile("ld.relaxed.gpu.global.f64 %0, [%1];" : "=d"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ void store_relaxed(double* to, double value) {
    asm volatile("st.relaxed.gpu.global.f64 [%0], %1;" ::"l"(to), "d"(value) : "memory");
}

}  // namespace kernelwright::sm90
