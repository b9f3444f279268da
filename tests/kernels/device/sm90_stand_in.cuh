// sm90_instructions.cuh in plain CUDA, for the emulator: the same functions, made of copies and counters.
//
// A barrier counts the phases that are over; a bulk copy is made at once and ends the phase. What is left to show on a
// GPU are the instructions themselves, clusters and the order of memory.
#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::group_norm::sm90 {

__device__ inline void barrier_init(uint64_t* barrier) { *barrier = 0; }
__device__ inline void barriers_made() { __threadfence(); }
__device__ inline void barrier_expect(uint64_t*, uint32_t) {}

__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
    while ((atomicAdd(reinterpret_cast<unsigned long long*>(barrier), 0ull) & 1) == parity) {
    }
}

__device__ inline uint64_t evict_first() { return 0; }
__device__ inline uint64_t evict_last() { return 0; }

__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier, uint64_t) {
    assert(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0 && bytes % 16 == 0);
    for (uint32_t i = 0; i < bytes / 16; ++i) static_cast<float4*>(to)[i] = static_cast<const float4*>(from)[i];
    __threadfence();
    atomicAdd(reinterpret_cast<unsigned long long*>(barrier), 1ull);
}

__device__ inline void prefetch(const void*, uint32_t) {}
__device__ inline float4 load_hinted(const void* from, uint64_t) { return *static_cast<const float4*>(from); }
__device__ inline double load_relaxed(const double* from) { return __ldcg(from); }
__device__ inline void store_relaxed(double* to, double value) { *const_cast<volatile double*>(to) = value; }
__device__ inline void cluster_sync() { __trap(); }
__device__ inline void store_in_cluster(const double*, uint32_t, double) { __trap(); }

}  // namespace kernelwright::group_norm::sm90
