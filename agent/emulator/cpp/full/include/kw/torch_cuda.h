// Replaces at::cuda and c10::cuda for the single emulated device, in code compiled against torch's own headers. A CPU
// build of torch lacks some of the replaced headers, and the headers of a CUDA build would query a real driver.
#pragma once
#include <ATen/DeviceGuard.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime.h>

#include <optional>

#include "kw/runtime.h"

#ifndef C10_CUDA_API
#define C10_CUDA_API
#define C10_CUDA_IMPORT
#define C10_CUDA_BUILD_SHARED_LIBS
#endif

namespace c10::cuda {

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  explicit CUDAStream(Stream stream) : stream_(reinterpret_cast<cudaStream_t>(stream.id())) {}
  operator cudaStream_t() const { return stream_; }
  operator Stream() const { return unwrap(); }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }
  cudaStream_t stream() const { return stream_; }
  void synchronize() const { (void)cudaStreamSynchronize(stream_); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  int priority() const { return 0; }
  Device device() const { return Device(kCUDA, 0); }
  DeviceIndex device_index() const { return 0; }
  DeviceType device_type() const { return kCUDA; }
  StreamId id() const { return reinterpret_cast<StreamId>(stream_); }
  Stream unwrap() const { return Stream(Stream::UNSAFE, device(), id()); }

 private:
  cudaStream_t stream_ = nullptr;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return kw_current_stream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
  cudaStream_t made = nullptr;
  (void)cudaStreamCreate(&made);
  return made;
}
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) { return stream; }
inline void setCurrentCUDAStream(CUDAStream stream) { kw_set_current_stream(stream); }
inline DeviceIndex current_device() { return 0; }
inline DeviceIndex device_count() { return 1; }
inline DeviceIndex device_count_ensure_non_zero() { return 1; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { (void)cudaDeviceSynchronize(); }
inline void stream_synchronize(cudaStream_t stream) { (void)cudaStreamSynchronize(stream); }

class CUDAGuard {
 public:
  explicit CUDAGuard(Device) {}
  explicit CUDAGuard(DeviceIndex) {}
  void set_index(DeviceIndex) {}
  void set_device(Device) {}
  void reset_device(Device) {}
  Device current_device() const { return Device(kCUDA, 0); }
  Device original_device() const { return Device(kCUDA, 0); }
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
  void reset() {}
  std::optional<Device> current_device() const { return Device(kCUDA, 0); }
  std::optional<Device> original_device() const { return Device(kCUDA, 0); }
};

class CUDAStreamGuard {
  CUDAStream before_ = getCurrentCUDAStream();

 public:
  explicit CUDAStreamGuard(Stream stream) { reset_stream(stream); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  void reset_stream(Stream stream) { setCurrentCUDAStream(CUDAStream(stream)); }
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }
};

class OptionalCUDAStreamGuard {
 public:
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(std::optional<Stream> stream) {
    if (stream) reset_stream(*stream);
  }
  void reset_stream(Stream stream) {
    if (!guard_) guard_.emplace(stream);
    guard_->reset_stream(stream);
  }

 private:
  std::optional<CUDAStreamGuard> guard_;
};

inline void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  TORCH_CHECK(false, "CUDA error: ", cudaGetErrorString(error));
}

}  // namespace c10::cuda

#define C10_CUDA_CHECK(EXPR) ::c10::cuda::check((EXPR))
#define C10_CUDA_CHECK_WARN(EXPR) ((void)(EXPR))
#define C10_CUDA_ERROR_HANDLED(EXPR) (EXPR)
#define C10_CUDA_IGNORE_ERROR(EXPR) ((void)(EXPR))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)

namespace at::cuda {

using namespace c10::cuda;

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

inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  static cudaDeviceProp properties = [device] {
    cudaDeviceProp found;
    (void)cudaGetDeviceProperties(&found, device);
    return found;
  }();
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline bool is_available() { return true; }
inline int64_t getNumGPUs() { return 1; }
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
}  // namespace at::cuda

#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                          \
  int64_t _i_n_d_e_x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;       \
  for (index_type i = _i_n_d_e_x; _i_n_d_e_x < (n);                                       \
       _i_n_d_e_x += static_cast<int64_t>(blockDim.x) * gridDim.x, i = _i_n_d_e_x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
