// Programmatic dependent launch: kernels that start while the previous kernel finishes (compute capability 9).
//
// The launch gap between two small kernels can exceed the run time of either. The GPU may therefore start these kernels
// early. Each calls `await_earlier` before its first access to global memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kernelwright {

constexpr int64_t kMaxCluster = 8;  // blocks; supported by every GPU with clusters
constexpr unsigned kBlocksAtOnce = 2048;  // maximum number of resident blocks on an H100
constexpr uint64_t kThreadsAtOnce = 1 << 18;

#ifndef KW_PORTABLE_ONLY
__device__ __forceinline__ void await_earlier() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Signals that the next kernel may start, as far as this block is concerned.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// Prefetches into L2. Safe before `await_earlier`: the stores of the kernel before go through L2 as well.
__device__ __forceinline__ void bring_near(const void* data) { asm volatile("prefetch.global.L2 [%0];" ::"l"(data)); }

// Launches a kernel that calls await_earlier. The blocks of a cluster are side by side in x.
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

// let_next_begin for grids of many blocks. Only the last blocks signal, as a signal costs 1 ns or more per block.
__device__ __forceinline__ void let_next_begin_at_last() {
    if (gridDim.x - blockIdx.x <= kBlocksAtOnce) let_next_begin();
}

// Returns true if all blocks of this kernel are resident at once. Then the next kernel can start beside them and
// prefetch its inputs. With more blocks, the next kernel would take the place of blocks that still wait for an SM.
__device__ __forceinline__ bool is_at_once() { return uint64_t{gridDim.x} * blockDim.x <= kThreadsAtOnce; }

template <typename... Parameters, typename... Given>
cudaError_t launched_in_clusters(
    void (*kernel)(Parameters...), unsigned cluster, dim3 grid, dim3 block, cudaStream_t stream, Given... given) {
    return launched_as(kernel, cluster, grid, block, 0, stream, given...);
}

// Launches with `bytes` of dynamic shared memory.
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
