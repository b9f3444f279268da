// Launches that do not wait for the end of the kernel before them, where the GPU can do that; elsewhere plain ones.
#pragma once

#ifndef KW_PORTABLE_ONLY
#include "behind_sm90.cuh"
#else
#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

__device__ __forceinline__ void wait_for_kernel_before() {}

__device__ __forceinline__ void let_kernel_behind_begin() {}

template <typename... Parameters, typename... Given>
cudaError_t launch_behind(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, int64_t bytes, int64_t, cudaStream_t stream, Given... given) {
    kernel<<<grid, block, size_t(bytes), stream>>>(Parameters(given)...);
    return cudaGetLastError();
}

}  // namespace kernelwright
#endif
