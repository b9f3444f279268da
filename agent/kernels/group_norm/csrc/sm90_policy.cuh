// L2 eviction policies. Not for the emulator's translation of C++.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::group_norm::sm90 {

// Evict-first for data that is read for the last time, the default policy otherwise.
__device__ __forceinline__ uint64_t policy_of(bool is_last_read) {
    uint64_t first, normal;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    return is_last_read ? first : normal;
}

}  // namespace kernelwright::group_norm::sm90
