// How long L2 keeps what is read. Not for the emulator's translation of C++.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright::group_norm::sm90 {

// What is read for the last time makes room first, so that nothing else has to; the rest stays as ever.
__device__ __forceinline__ uint64_t policy_of(bool is_last_read) {
    uint64_t first, normal;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
    return is_last_read ? first : normal;
}

}  // namespace kernelwright::group_norm::sm90
