// Streams, guards, checks and properties of at::cuda and c10::cuda, for the single emulated device.
#pragma once
#include <cuda_runtime.h>

#include "kw/host_operators.h"
#include "kw/runtime.h"

namespace c10 {

inline optional<Device> device_of(const at::Tensor& tensor) {
  return tensor.defined() ? optional<Device>(tensor.device()) : nullopt;
}

struct Stream {
  cudaStream_t handle = nullptr;
  Device device() const { return Device(kCUDA, 0); }
  int64_t id() const { return reinterpret_cast<int64_t>(handle); }
};

namespace cuda {

class CUDAStream {
  cudaStream_t stream_ = nullptr;

 public:
  CUDAStream() = default;
  CUDAStream(cudaStream_t stream) : stream_(stream) {}
  explicit CUDAStream(Stream stream) : stream_(stream.handle) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { (void)cudaStreamSynchronize(stream_); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  Device device() const { return Device(kCUDA, 0); }
  DeviceIndex device_index() const { return 0; }
  int64_t id() const { return unwrap().id(); }
  Stream unwrap() const { return {stream_}; }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return kw_current_stream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
  cudaStream_t made = nullptr;
  (void)cudaStreamCreate(&made);
  return made;
}
inline void setCurrentCUDAStream(CUDAStream stream) { kw_set_current_stream(stream); }
inline DeviceIndex current_device() { return 0; }
inline DeviceIndex device_count() { return 1; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { (void)cudaDeviceSynchronize(); }
inline void stream_synchronize(cudaStream_t stream) { (void)cudaStreamSynchronize(stream); }

class CUDAGuard {
 public:
  explicit CUDAGuard(Device) {}
  explicit CUDAGuard(DeviceIndex) {}
  void set_index(DeviceIndex) {}
  void set_device(Device) {}
  Device current_device() const { return Device(kCUDA, 0); }
  Device original_device() const { return Device(kCUDA, 0); }
};
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(optional<Device>) {}
  explicit OptionalCUDAGuard(DeviceIndex) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
};
class CUDAStreamGuard {
  CUDAStream before_ = getCurrentCUDAStream();

 public:
  explicit CUDAStreamGuard(CUDAStream stream) { setCurrentCUDAStream(stream); }
  explicit CUDAStreamGuard(Stream stream) : CUDAStreamGuard(CUDAStream(stream)) {}
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  void reset_stream(Stream stream) { setCurrentCUDAStream(CUDAStream(stream)); }
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }
};

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  // TORCH_CHECK throws the exception, because nvcc's headers define the macro in their own way.
  TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(error), what);
}

}  // namespace cuda
}  // namespace c10

#define C10_CUDA_CHECK(EXPR) ::c10::cuda::check((EXPR), "")
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
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::stream_synchronize;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::set_device;
using c10::cuda::setCurrentCUDAStream;

class CUDAEvent {
  cudaEvent_t event_ = nullptr;

 public:
  CUDAEvent() = default;
  explicit CUDAEvent(unsigned) {}
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  CUDAEvent(CUDAEvent&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
  CUDAEvent& operator=(CUDAEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  operator cudaEvent_t() const { return event_; }
  cudaEvent_t event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) {
    if (event_ == nullptr) (void)cudaEventCreate(&event_);
    (void)cudaEventRecord(event_, stream);
  }
  void recordOnce(const CUDAStream& stream) {
    if (event_ == nullptr) record(stream);
  }
  void block(const CUDAStream& stream) {
    if (event_ != nullptr) (void)cudaStreamWaitEvent(stream, event_, 0);
  }
  bool query() const { return event_ == nullptr || cudaEventQuery(event_) == cudaSuccess; }
  void synchronize() const {
    if (event_ != nullptr) (void)cudaEventSynchronize(event_);
  }
};

inline cudaDeviceProp* getDeviceProperties(int64_t device) {
  static cudaDeviceProp properties = [device] {
    cudaDeviceProp found;
    (void)cudaGetDeviceProperties(&found, static_cast<int>(device));
    return found;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
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
  return static_cast<int>((n + threads - 1) / threads);
}
}  // namespace detail
}  // namespace cuda
}  // namespace at

namespace torch {
namespace cuda {
using namespace at::cuda;
inline void synchronize(int64_t = -1) { (void)cudaDeviceSynchronize(); }
}  // namespace cuda
}  // namespace torch

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                          \
  int64_t _i_n_d_e_x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;       \
  for (index_type i = _i_n_d_e_x; _i_n_d_e_x < (n);                                       \
       _i_n_d_e_x += static_cast<int64_t>(blockDim.x) * gridDim.x, i = _i_n_d_e_x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
