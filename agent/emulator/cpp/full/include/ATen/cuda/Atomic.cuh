// Replaces torch's own header; gpuAtomicAdd calls CUDA's atomicAdd.
#pragma once
#include "kw/torch_cuda.h"

#ifdef KW_DEVICE_UNIT
template <class T>
inline T gpuAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
inline void gpuAtomicAddNoReturn(T* address, T value) {
  atomicAdd(address, value);
}
#endif
