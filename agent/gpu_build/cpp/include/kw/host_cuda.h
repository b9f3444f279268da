// at::cuda and c10::cuda for a real GPU: the current stream, guards, checks, properties. The current stream comes
// from torch through Python, everything else from the CUDA runtime. torch's stream pool and changes of the current
// stream are missing; stock load_inline builds code that uses them.
#pragma once
#include <cuda_runtime.h>

#include "kw/host_operators.h"

#pragma GCC visibility push(hidden)

namespace c10 {

inline optional<Device> device_of(const at::Tensor& tensor) {
  return tensor.defined() ? optional<Device>(tensor.device()) : nullopt;
}

namespace cuda {

class CUDAStream {
  cudaStream_t stream_ = nullptr;

 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const;
  bool query() const;
  Device device() const { return Device(kCUDA, 0); }
  DeviceIndex device_index() const { return 0; }
};
// gpu_build/cpp/library.cpp defines all functions that this header only declares.
CUDAStream getCurrentCUDAStream(DeviceIndex = -1);
CUDAStream getDefaultCUDAStream(DeviceIndex = -1);
DeviceIndex current_device();
DeviceIndex device_count();
void set_device(DeviceIndex);
void device_synchronize();

// Sets the current device, and restores the previous one at the end of its scope.
class CUDAGuard {
  int before_ = 0;

 public:
  explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  explicit CUDAGuard(DeviceIndex device);
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard();
  void set_index(DeviceIndex device) { c10::cuda::set_device(device); }
  void set_device(Device device) { c10::cuda::set_device(device.index()); }
  Device current_device() const { return Device(kCUDA, c10::cuda::current_device()); }
  Device original_device() const { return Device(kCUDA, before_); }
};
class OptionalCUDAGuard {
  int before_ = -1;

 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(optional<Device> device);
  explicit OptionalCUDAGuard(DeviceIndex device) : OptionalCUDAGuard(optional<Device>(Device(kCUDA, device))) {}
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard();
};

// Throws c10::Error with CUDA's error text unless the error is cudaSuccess.
void check(cudaError_t error);

}  // namespace cuda
}  // namespace c10

#define C10_CUDA_CHECK(EXPR) ::c10::cuda::check((EXPR))
#define C10_CUDA_CHECK_WARN(EXPR) ((void)(EXPR))
#define C10_CUDA_IGNORE_ERROR(EXPR) ((void)(EXPR))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_WARP_SIZE 32

namespace at {

using c10::device_of;
using DeviceGuard = c10::cuda::CUDAGuard;
using OptionalDeviceGuard = c10::cuda::OptionalCUDAGuard;

namespace cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::set_device;

cudaDeviceProp* getDeviceProperties(int64_t device);
cudaDeviceProp* getCurrentDeviceProperties();
inline bool is_available() { return true; }
inline int warp_size() { return 32; }
template <class T>
constexpr T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
namespace detail {
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t n, int64_t threads = CUDA_NUM_THREADS) {
  TORCH_CHECK(n > 0, "CUDA kernel launch blocks must be positive, but got N=", n);
  const int64_t blocks = (n - 1) / threads + 1;
  TORCH_CHECK(blocks <= 2147483647, "Can't schedule too many blocks on CUDA device");
  return static_cast<int>(blocks);
}
}  // namespace detail
}  // namespace cuda
}  // namespace at

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                           \
  int64_t _i_n_d_e_x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;       \
  for (index_type i = _i_n_d_e_x; _i_n_d_e_x < (n);                                       \
       _i_n_d_e_x += static_cast<int64_t>(blockDim.x) * gridDim.x, i = _i_n_d_e_x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

#pragma GCC visibility pop
