// What every extension of the fast lane shares, compiled once: the slim torch of the emulator, and
// c10::cuda on CUDA's own runtime.
#include "host/library.cpp"  // of the emulator
#include "kw/host_cuda.h"

#pragma GCC visibility push(hidden)

namespace c10::cuda {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Error(str("CUDA error: ", cudaGetErrorString(error)));
}

void CUDAStream::synchronize() const { check(cudaStreamSynchronize(stream_)); }
bool CUDAStream::query() const {
  const cudaError_t error = cudaStreamQuery(stream_);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(error);
  return true;
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  const int64_t handle = kw::invoke<int64_t>("current_stream", static_cast<int64_t>(device));
  return CUDAStream(reinterpret_cast<cudaStream_t>(handle));
}
CUDAStream getDefaultCUDAStream(DeviceIndex) { return CUDAStream(nullptr); }

DeviceIndex current_device() {
  int device = 0;
  check(cudaGetDevice(&device));
  return static_cast<DeviceIndex>(device);
}
DeviceIndex device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  return static_cast<DeviceIndex>(count);
}
void set_device(DeviceIndex device) {
  if (device >= 0) check(cudaSetDevice(device));
}
void device_synchronize() { check(cudaDeviceSynchronize()); }

CUDAGuard::CUDAGuard(DeviceIndex device) : before_(c10::cuda::current_device()) {
  if (device != before_) c10::cuda::set_device(device);
}
CUDAGuard::~CUDAGuard() { (void)cudaSetDevice(before_); }
OptionalCUDAGuard::OptionalCUDAGuard(optional<Device> device) {
  if (!device) return;
  before_ = c10::cuda::current_device();
  c10::cuda::set_device(device->index());
}
OptionalCUDAGuard::~OptionalCUDAGuard() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

}  // namespace c10::cuda

namespace at::cuda {

cudaDeviceProp* getDeviceProperties(int64_t device) {
  static std::map<int64_t, cudaDeviceProp> known;
  auto found = known.find(device);
  if (found == known.end()) {
    cudaDeviceProp properties;
    c10::cuda::check(cudaGetDeviceProperties(&properties, static_cast<int>(device)));
    found = known.emplace(device, properties).first;
  }
  return &found->second;
}
cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(c10::cuda::current_device()); }

}  // namespace at::cuda

#pragma GCC visibility pop
