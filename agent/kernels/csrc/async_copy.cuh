// Asynchronous copies from global to shared memory (cp.async, from sm_80 on). Elsewhere they are synchronous.
#pragma once

#include <cuda_pipeline.h>

#include "element.cuh"

namespace kernelwright {

// Starts a copy for the calling thread alone, which also has to wait for it.
template <typename T, int V>
__device__ __forceinline__ void copy_async(Pack<T, V>* to, const Pack<T, V>* from) {
    if constexpr (sizeof(*to) >= 4) {
        __pipeline_memcpy_async(to, from, sizeof(*to));
    } else {
        *to = *from;
    }
}

// Commits the copies since the last call as one group.
__device__ __forceinline__ void copies_asked_for() { __pipeline_commit(); }

// Waits until at most the latest `groups` groups are in flight.
__device__ __forceinline__ void copies_wait(int groups) { __pipeline_wait_prior(groups); }

}  // namespace kernelwright
