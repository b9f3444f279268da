// launched.cuh for the emulator without PTX: kernels follow each other.
#include <cuda_runtime.h>

namespace kernelwright {

__device__ inline void await_earlier() {}

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
