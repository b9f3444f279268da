// sm_90 instructions for the blocks of a cluster: barriers, remote stores and loads, and two approximate functions. Not
// for the emulator. The cooperative groups header also has barriers and remote accesses, but takes a second to compile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace kernelwright::sm90 {

// First half of the cluster barrier, executed by every thread; cluster_wait is the second.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }

// Arrives at the cluster barrier where blocks only need to know that all blocks have started. The arrival is relaxed: a
// release would wait for all writes of this block to global memory.
__device__ __forceinline__ void cluster_begun() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

__device__ __forceinline__ int cluster_number() {
    int number;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    return number;
}

// Rank of this block in its cluster.
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Stores to the shared memory of block `rank`, at the offset of `to`.
__device__ __forceinline__ void store_in_block(uint64_t* to, int rank, uint64_t value) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "r"(rank));
    asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

__device__ __forceinline__ void store_in_block(double* to, int rank, double value) {
    store_in_block(reinterpret_cast<uint64_t*>(to), rank, static_cast<uint64_t>(__double_as_longlong(value)));
}

// Sends 4, 8 or 16 bytes to the shared memory of block `rank`, at the offset of `to`. They complete on that block's
// `barrier`.
template <typename Value>
__device__ __forceinline__ void send_to_block(Value* to, int rank, const Value& value, uint64_t* barrier) {
    static_assert(sizeof(Value) == 4 || sizeof(Value) == 8 || sizeof(Value) == 16);
    uint32_t words[4], address, told;
    memcpy(words, &value, sizeof value);
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(told)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))), "r"(rank));
    if constexpr (sizeof(Value) == 4) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address),
                     "r"(words[0]), "r"(told)
                     : "memory");
    } else if constexpr (sizeof(Value) == 8) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(address),
                     "r"(words[0]), "r"(words[1]), "r"(told)
                     : "memory");
    } else {
        asm volatile(
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
            "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(told)
            : "memory");
    }
}

// Loads from the shared memory of block `rank`, at the offset of `from`.
__device__ __forceinline__ float load_from_block(const float* from, int rank) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(rank));
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

// 2^z and 1 / z with an error of at most 2 ulp. Subnormals are flushed to 0.
__device__ __forceinline__ float approximate_exp2(float z) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(z));
    return power;
}

__device__ __forceinline__ float approximate_reciprocal(float z) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(z));
    return inverse;
}

}  // namespace kernelwright::sm90
