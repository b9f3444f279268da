// Replaces torch's own header; gpuAtomicAdd calls CUDA's atomicAdd.
#pragma once
#include "kw/host_cuda.h"

#if defined(__CUDACC__) || defined(KW_DEVICE_UNIT)
template <class T>
__device__ inline T gpuAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
__device__ inline void gpuAtomicAddNoReturn(T* address, T value) {
  atomicAdd(address, value);
}
#endif
