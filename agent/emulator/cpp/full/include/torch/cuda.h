// torch::cuda for the single emulated device, in place of torch's own header.
#pragma once
#include <c10/core/Device.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace torch::cuda {
inline c10::DeviceIndex device_count() { return 1; }
inline bool is_available() { return true; }
inline bool cudnn_is_available() { return true; }
inline void manual_seed(uint64_t) {}
inline void manual_seed_all(uint64_t) {}
inline void synchronize(int64_t = -1) { (void)cudaDeviceSynchronize(); }
}  // namespace torch::cuda
