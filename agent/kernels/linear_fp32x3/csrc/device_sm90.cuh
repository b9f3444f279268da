// Device attributes, and the condition for the tensor cores.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

// Smallest K for the tensor cores. The split keeps 22 bits of float's 24, and shorter float sums round so seldom that
// three products would not match them.
constexpr int64_t kLeastDepth = 256;

inline int attribute(cudaDeviceAttr which, int64_t device) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, static_cast<int>(device)) == cudaSuccess ? value : 0;
}

inline bool tensor_cores_take(int64_t k, int64_t device) {
    return k >= kLeastDepth && attribute(cudaDevAttrComputeCapabilityMajor, device) == 9 &&
           attribute(cudaDevAttrComputeCapabilityMinor, device) == 0;
}

}  // namespace kernelwright::linear
