// The launches of csrc/launched.cuh as GPUs without programmatic launches make them: one kernel ends before the next begins.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

__device__ __forceinline__ void await_earlier() {}

__device__ __forceinline__ void let_next_begin() {}

template <typename... Parameters, typename... Given>
cudaError_t launched_with(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, int64_t bytes, cudaStream_t stream, Given... given) {
    kernel<<<grid, block, bytes, stream>>>(Parameters(given)...);
    return cudaGetLastError();
}

template <typename... Parameters, typename... Given>
cudaError_t launched(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Given... given) {
    return launched_with(kernel, grid, block, 0, stream, given...);
}

}  // namespace kernelwright
