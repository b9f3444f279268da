// Kernels that are launched while what was launched before them ends, on GPUs of compute capability 9.
//
// Between two small kernels that follow each other a launch takes longer than either. So a GPU may begin these before
// the earlier work is done, and they wait for it themselves: `await_earlier` comes before all that they read and write of
// global memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

constexpr int64_t kMaxCluster = 8;  // blocks: what every GPU with clusters runs
constexpr unsigned kBlocksAtOnce = 2048;  // of a kernel, that an H100 has room for at most
constexpr uint64_t kThreadsAtOnce = 1 << 18;

#ifndef KW_PORTABLE_ONLY
__device__ __forceinline__ void await_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// From the block's side, what is launched next may begin.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Brings what is read later into the L2 cache; before `await_earlier` too, for what is written meanwhile arrives there.
__device__ __forceinline__ void bring_near(const void* data) { asm volatile("prefetch.global.L2 [%0];" ::"l"(data)); }

// For a kernel that awaits what is earlier; the blocks of a cluster stand side by side in x.
template <typename... Parameters, typename... Given>
cudaError_t launched_as(
    void (*kernel)(Parameters...), unsigned cluster, dim3 grid, dim3 block, size_t bytes, cudaStream_t stream,
    Given... given) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = cluster == 1 ? 1 : 2;
    return cudaLaunchKernelEx(&config, kernel, Parameters(given)...);
}

inline bool has_clusters(int64_t device) {
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, int(device)) == cudaSuccess && major == 9;
}

#else
__device__ __forceinline__ void await_earlier() {}

__device__ __forceinline__ void let_next_begin() {}

__device__ __forceinline__ void bring_near(const void*) {}

inline bool has_clusters(int64_t) { return false; }

template <typename... Parameters, typename... Given>
cudaError_t launched_as(
    void (*kernel)(Parameters...), unsigned, dim3 grid, dim3 block, size_t bytes, cudaStream_t stream, Given... given) {
    kernel<<<grid, block, bytes, stream>>>(Parameters(given)...);
    return cudaGetLastError();
}
#endif

// The same where there may be very many blocks: by the last ones alone, since it takes a nanosecond or more of each.
__device__ __forceinline__ void let_next_begin_at_last() {
    if (gridDim.x - blockIdx.x <= kBlocksAtOnce) let_next_begin();
}

// Whether all blocks of this kernel stand on the SMs at once. What is launched next may begin beside them then, and bring near
// what it will read; where blocks wait for room it would take theirs.
__device__ __forceinline__ bool is_at_once() { return uint64_t{gridDim.x} * blockDim.x <= kThreadsAtOnce; }

template <typename... Parameters, typename... Given>
cudaError_t launched_in_clusters(
    void (*kernel)(Parameters...), unsigned cluster, dim3 grid, dim3 block, cudaStream_t stream, Given... given) {
    return launched_as(kernel, cluster, grid, block, 0, stream, given...);
}

// With `bytes` of shared memory.
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
