// Copies that a thread makes into shared memory while it goes on, where the GPU has them (sm_80); elsewhere at once.
#pragma once

#include <cuda_pipeline.h>

#include "element.cuh"

namespace kernelwright {

// For the calling thread alone, which waits for what it asked for.
template <typename T, int V>
__device__ __forceinline__ void copy_async(Pack<T, V>* to, const Pack<T, V>* from) {
    if constexpr (sizeof(*to) >= 4) {
        __pipeline_memcpy_async(to, from, sizeof(*to));
    } else {
        *to = *from;
    }
}

// Ends a group of copies, which are waited for together.
__device__ __forceinline__ void copies_asked_for() { __pipeline_commit(); }

// Until no more than the latest `groups` are on their way.
__device__ __forceinline__ void copies_wait(int groups) { __pipeline_wait_prior(groups); }

}  // namespace kernelwright
