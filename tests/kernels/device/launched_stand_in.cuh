// In the place of launched.cuh for the emulator's translation of C++: launches that overlap none, clusters of one block.
#pragma once

#include <cuda_runtime.h>

namespace kernelwright {

__device__ inline void await_earlier() {}
__device__ inline void let_next_begin() {}

template <typename... Parameters, typename... Given>
cudaError_t launched_as(
    void (*kernel)(Parameters...), unsigned, dim3 grid, dim3 block, size_t bytes, cudaStream_t stream, Given... given) {
    kernel<<<grid, block, bytes, stream>>>(Parameters(given)...);
    return cudaGetLastError();
}

template <typename... Parameters, typename... Given>
cudaError_t launched_with(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, int64_t bytes, cudaStream_t stream, Given... given) {
    return launched_as(kernel, 1, grid, block, size_t(bytes), stream, given...);
}

template <typename... Parameters, typename... Given>
cudaError_t launched(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Given... given) {
    return launched_as(kernel, 1, grid, block, 0, stream, given...);
}

}  // namespace kernelwright
