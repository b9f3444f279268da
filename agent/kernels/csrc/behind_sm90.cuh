// Kernels that a GPU of compute capability 9 or later begins while the one before them ends: programmatic dependent launch.
// Not for the emulator's translation of C++.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

// Until all that the kernel before this one wrote is there: before anything is read or written.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From the block's side, the kernel behind may begin.
__device__ __forceinline__ void let_kernel_behind_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches a kernel that calls wait_for_kernel_before first, with `bytes` of shared memory.
template <typename... Parameters, typename... Given>
cudaError_t launch_behind(
    void (*kernel)(Parameters...), dim3 grid, dim3 block, int64_t bytes, int64_t device, cudaStream_t stream,
    Given... given) {
    int major = 0;
    const cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, int(device));
    if (status != cudaSuccess) return status;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = size_t(bytes);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = major >= 9 ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, Parameters(given)...);
}

}  // namespace kernelwright
