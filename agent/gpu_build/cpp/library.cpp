// Code shared by all extensions of the slim build, compiled once: the emulator's slim torch, with c10::cuda on the
// real CUDA runtime.
#include "host/library.cpp"  // the emulator's slim torch
#include "kw/host_cuda.h"

#pragma GCC visibility push(hidden)

// Definitions of functions that the headers for nvcc (build/nvcc/include) only declare. nvcc sees Arg and Tensor
// with the layout that they have here, but without their members.
namespace kw {

struct ArgLayout {
  kw_value value;
  std::shared_ptr<void> kept;
};
static_assert(sizeof(Arg) == sizeof(ArgLayout) && sizeof(Arg) == sizeof(kw_value) + 2 * sizeof(void*));
static_assert(sizeof(at::Tensor) == sizeof(std::shared_ptr<kw_tensor>) && sizeof(at::Tensor) == 2 * sizeof(void*));

template <class Layout>
Layout& as(void* object) {
  return *static_cast<Layout*>(object);
}
template <class Layout>
const Layout& as(const void* object) {
  return *static_cast<const Layout*>(object);
}
void copy(Arg* to, const Arg& from) { new (static_cast<void*>(to)) ArgLayout(as<ArgLayout>(&from)); }
void assign(Arg* to, const Arg& from) { as<ArgLayout>(to) = as<ArgLayout>(&from); }
using TensorLayout = std::shared_ptr<kw_tensor>;
void copy(at::Tensor* to, const at::Tensor& from) {
  new (static_cast<void*>(to)) TensorLayout(as<TensorLayout>(&from));
}
void assign(at::Tensor* to, const at::Tensor& from) { as<TensorLayout>(to) = as<TensorLayout>(&from); }
Arg list_of(const Arg* parts, size_t count) { return std::vector<Arg>(parts, parts + count); }

void print(std::ostream& out, const kw_value& value) {
  switch (value.tag) {
    case KW_NONE: out << "None"; return;
    case KW_TENSOR: out << "a tensor"; return;
    case KW_INT: out << value.integer; return;
    case KW_FLOAT: out << value.real; return;
    case KW_BOOL: out << (value.integer ? "true" : "false"); return;
    case KW_STRING:
    case KW_DEVICE_NAME: out.write(value.text, value.length); return;
    case KW_DTYPE: out << static_cast<c10::ScalarType>(value.integer); return;
    case KW_LIST:
      out << '[';
      for (int64_t i = 0; i < value.length; ++i) {
        if (i > 0) out << ", ";
        print(out, value.items[i]);
      }
      out << ']';
      return;
    default: out << value.integer;
  }
}
std::string joined(std::initializer_list<Arg> parts) {
  std::ostringstream out;
  for (const Arg& part : parts) print(out, part.view());
  return out.str();
}
void warn(std::initializer_list<Arg> parts) { std::cerr << "Warning: " << joined(parts) << std::endl; }

enum class Fault { Error, Value, Type, Index, NotImplemented };
[[noreturn]] void refuse(Fault kind, const char* condition, std::initializer_list<Arg> parts) {
  const std::string said = parts.size() == 0 ? check_message(condition) : joined(parts);
  switch (kind) {
    case Fault::Value: throw c10::ValueError(said);
    case Fault::Type: throw c10::TypeError(said);
    case Fault::Index: throw c10::IndexError(said);
    case Fault::NotImplemented: throw c10::NotImplementedError(said);
    default: throw c10::Error(said);
  }
}

}  // namespace kw

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
