// What the host asks of a device, and where products go to the tensor cores.
#pragma once

#include "sizes.cuh"

namespace kernelwright::linear {

// Shorter sums have too few roundings for three products to be below: an operand keeps 22 bits, and float 24.
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
