// bulk_sm90.cuh in plain CUDA, for the emulator: the same functions, made of copies and counters.
//
// A barrier counts arrivals, bytes and the phases that are over; a copy is made at once. What is left to show on a GPU are
// the instructions and the order of memory.
#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::sm90 {

__device__ inline uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

// Bits 0 to 11: arrivals still to come in this phase; 12 to 23: arrivals of a phase; 24 to 47: bytes that have yet to
// come, plus 2^23; from 48: phases.
constexpr unsigned long long kNoBytes = 1ull << 47;

__device__ inline unsigned long long* cell_of(uint64_t* barrier) { return reinterpret_cast<unsigned long long*>(barrier); }

__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals = 1) { *barrier = arrivals << 12 | arrivals | kNoBytes; }
__device__ inline void barriers_made() { __threadfence(); }

// One step of the barrier: `arrivals` and `bytes` have come, or are announced where negative.
__device__ inline void barrier_step(uint64_t* barrier, int arrivals, int bytes) {
    unsigned long long before = atomicAdd(cell_of(barrier), 0ull);
    while (true) {
        unsigned long long after = before - arrivals - (static_cast<long long>(bytes) << 24);
        if ((after & 0xfff) == 0 && (after & 0xffffff000000ull) == kNoBytes) after += (after >> 12 & 0xfff) + (1ull << 48);
        const unsigned long long seen = atomicCAS(cell_of(barrier), before, after);
        if (seen == before) return;
        before = seen;
    }
}

__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) { barrier_step(barrier, 1, -static_cast<int>(bytes)); }
__device__ inline void barrier_arrive(uint64_t* barrier) {
    __threadfence();
    barrier_step(barrier, 1, 0);
}

__device__ inline void reads_made() {}

// One lane of those that wait together asks.
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
    const unsigned lanes = __activemask();
    if (threadIdx.x % 32 == __ffs(lanes) - 1) {
        while ((atomicAdd(cell_of(barrier), 0ull) >> 48 & 1) == parity) {
        }
    }
    __syncwarp(lanes);
}

__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
    assert(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0 && bytes % 16 == 0);
    for (uint32_t i = 0; i < bytes / 16; ++i) static_cast<float4*>(to)[i] = static_cast<const float4*>(from)[i];
    __threadfence();
    barrier_step(barrier, 0, static_cast<int>(bytes));
}

__device__ inline uint64_t evict_last() { return 0; }
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier, uint64_t) {
    bulk_load(to, from, bytes, barrier);
}

__device__ inline double load_relaxed(const double* from) { return __ldcg(from); }
__device__ inline void store_relaxed(double* to, double value) { *const_cast<volatile double*>(to) = value; }

}  // namespace kernelwright::sm90
