// Asynchronous copies from global to shared memory (cp.async, from sm_80 on). On older GPUs the copies are synchronous.
#pragma once

#include <cuda_pipeline.h>

#include "element.cuh"

namespace kernelwright {

// Starts the asynchronous copy of a pack. Only the thread that starts a copy can wait for it, by copies_wait.
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

// Waits until at most the latest `groups` groups of the thread's copies are in flight.
__device__ __forceinline__ void copies_wait(int groups) { __pipeline_wait_prior(groups); }

}  // namespace kernelwright
