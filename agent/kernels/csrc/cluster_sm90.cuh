// Instructions of sm_90 by which the blocks of a cluster meet, write to each other and read, and two that approximate. Not for
// the emulator's translation of C++. The header of cooperative groups, which has them too, takes a second to compile.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::sm90 {

// Every thread of the cluster arrives, and then waits for the others.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }

// The same for blocks that only have to know that all have begun: what this one wrote is not handed over, which would wait
// for all its writes to global memory.
__device__ __forceinline__ void cluster_begun() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

__device__ __forceinline__ int cluster_number() {
    int number;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
    return number;
}

// Of this block in its cluster.
__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Writes to where block `rank` of the cluster has `to` in its shared memory.
__device__ __forceinline__ void store_in_block(double* to, int rank, double value) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "r"(rank));
    asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(address), "d"(value) : "memory");
}

// Reads from where block `rank` of the cluster has `from` in its shared memory.
__device__ __forceinline__ float load_from_block(const float* from, int rank) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(rank));
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

// 2^z and 1 / z, at most 2 units in the last place off; what is subnormal is 0.
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
