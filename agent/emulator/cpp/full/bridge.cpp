// Presents CPU tensors of this process as tensors of cuda:0, for host code compiled against torch's own headers.
//
// A tensor passed to an extension gets a face on cuda:0: a second tensor object with the same memory and shape that
// reports device cuda:0. C++ then sees the same devices as on a GPU. While an extension runs, every operator is
// intercepted above all other dispatch keys. Its cuda:0 arguments are replaced by their CPU tensors, it runs on the
// CPU, and its results become cuda:0 tensors. Operators allocate the emulator's device memory, so that checked kernels
// know its bounds. The bridge needs no CUDA part of torch. It does not preserve the autograd graph.
#include <Python.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "kw/runtime.h"
#include "kw/torch_bridge.h"

#define KW_EXPORT extern "C" KW_BRIDGE

namespace {

constexpr auto kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;
const c10::Device kGpu(c10::kCUDA, 0);

// ---- Memory ----------------------------------------------------------------------------------------

thread_local bool making_device_memory = false;

// Device memory from an operator of the `empty` family; the value is true if another operator has written to it since.
std::unordered_map<const void*, bool> uninitialised;
// Memory of torch's own allocator that the bridge registered with the emulator, and the number of its cuda:0 faces.
std::unordered_map<const void*, int> known;

class Allocator final : public c10::Allocator {
 public:
  explicit Allocator(c10::Allocator* plain) : plain_(plain) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (!making_device_memory || bytes == 0) return plain_->allocate(bytes);
    void* made = kw_alloc(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, made, "CUDA out of memory. Tried to allocate ", bytes, " bytes.");
    uninitialised.erase(made);
    return {made, made, &kw_free, c10::Device(c10::kCPU)};
  }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* plain_;
};

// Owner of the memory of a cuda:0 face: the storage of its CPU face.
struct Backing {
  c10::Storage host;
  bool is_known = false;
};

void forget(void* opaque) {
  std::unique_ptr<Backing> backing(static_cast<Backing*>(opaque));
  if (!backing->is_known) return;
  const auto found = known.find(backing->host.data());
  if (found == known.end() || --found->second > 0) return;
  kw_unregister(found->first);
  known.erase(found);
}

void make_known(Backing& backing, const at::Tensor& host) {
  const void* first = backing.host.data();
  if (first == nullptr || backing.host.nbytes() == 0) return;
  std::ostringstream label;
  label << c10::getDtypeNames(host.scalar_type()).first << " tensor " << host.sizes();
  const bool is_new = kw_register(first, backing.host.nbytes(), label.str().c_str()) != 0;
  backing.is_known = is_new || known.count(first) > 0;
  if (backing.is_known) known[first] = is_new ? 1 : known[first] + 1;
}

// ---- Faces -----------------------------------------------------------------------------------------

c10::Storage device_storage(const at::Tensor& host) {
  auto backing = std::make_unique<Backing>(Backing{host.storage()});
  make_known(*backing, host);
  void* first = host.storage().mutable_data();
  const size_t bytes = host.storage().nbytes();
  return {c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(first, backing.release(), &forget, kGpu), nullptr, false};
}

c10::Storage host_storage(const at::Tensor& device) {
  const c10::DataPtr& data = device.storage().data_ptr();
  if (data.get_deleter() == &forget) return static_cast<Backing*>(data.get_context())->host;
  // The memory belongs to the extension, which made the tensor with from_blob.
  auto* kept = new c10::Storage(device.storage());
  const auto drop = [](void* storage) { delete static_cast<c10::Storage*>(storage); };
  return {c10::Storage::use_byte_size_t(), kept->nbytes(), c10::DataPtr(data.get(), kept, drop, c10::kCPU), nullptr, false};
}

at::Tensor face(c10::Storage&& storage, c10::DispatchKey key, const at::Tensor& of) {
  auto made = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), of.dtype());
  made->set_sizes_and_strides(of.sizes(), of.strides(), of.storage_offset());
  made->_set_conj(of.is_conj());
  made->_set_neg(of.is_neg());
  return at::Tensor(std::move(made));
}

// Returns true for strided tensors, because only their memory can be passed to a kernel.
bool has_faces(const at::Tensor& tensor) { return tensor.defined() && tensor.layout() == at::kStrided; }

at::Tensor on_device(const at::Tensor& host) {
  if (!has_faces(host) || !host.is_cpu()) return host;
  return face(device_storage(host), c10::DispatchKey::CUDA, host);
}

at::Tensor on_host(const at::Tensor& device) {
  if (!has_faces(device) || !device.is_cuda()) return device;
  return face(host_storage(device), c10::DispatchKey::CPU, device);
}

// ---- Operators -------------------------------------------------------------------------------------

// One call of an operator. `down` converts its cuda:0 arguments to CPU tensors, and `up` its results to cuda:0 tensors.
class Call {
 public:
  Call(const c10::FunctionSchema& schema, bool to_gpu) : schema_(schema), to_gpu_(to_gpu) {}

  c10::IValue down(const c10::IValue& value, const c10::Argument& argument) {
    writes_ = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (value.isDevice()) return value.toDevice().is_cuda() ? c10::IValue(c10::Device(c10::kCPU)) : value;
    // pin_memory is dropped, because a CPU build of torch cannot pin memory.
    return argument.name() == "pin_memory" ? c10::IValue() : each(value, [this](auto& t) { return lowered(t); });
  }

  c10::IValue up(const c10::IValue& value) {
    return each(value, [this](auto& t) { return raised(t); });
  }

  // Applies changes to the cuda:0 tensors: in-place and out= operators may have replaced a tensor's memory or shape.
  void follow_changes() {
    for (const auto& [device, host] : pairs_) {
      auto* impl = device.unsafeGetTensorImpl();
      if (host.storage().data() != device.storage().data() || host.storage().nbytes() != device.storage().nbytes()) {
        impl->set_storage_keep_dtype(device_storage(host));
      }
      const bool moved = host.storage_offset() != device.storage_offset() || host.strides() != device.strides();
      if (moved || host.sizes() != device.sizes()) {
        impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
      }
    }
  }

 private:
  template <class Change>
  static c10::IValue each(const c10::IValue& value, const Change& change) {
    if (value.isTensor()) return change(value.toTensor());
    if (!value.isList()) return value;
    const auto list = value.toList();
    const auto kind = list.elementType()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::OptionalType) return value;
    c10::impl::GenericList changed(list.elementType());
    changed.reserve(list.size());
    for (const c10::IValue& item : list) changed.push_back(item.isTensor() ? change(item.toTensor()) : item);
    return changed;
  }

  c10::IValue lowered(const at::Tensor& tensor) {
    if (!has_faces(tensor) || !tensor.is_cuda()) return tensor;
    pairs_.emplace_back(tensor, on_host(tensor));
    if (writes_) {
      const auto found = uninitialised.find(tensor.storage().data());
      if (found != uninitialised.end()) found->second = true;
    }
    return pairs_.back().second;
  }

  c10::IValue raised(const at::Tensor& tensor) {
    if (!has_faces(tensor)) return tensor;
    for (const auto& [device, host] : pairs_) {
      if (to_gpu_ && host.is_same(tensor)) return device;
      // A copy to the CPU shares no memory with its source.
      if (!to_gpu_ && host.storage().is_alias_of(tensor.storage())) return tensor.clone();
    }
    if (!to_gpu_) return tensor;
    const std::string& name = schema_.name();
    const bool makes_empty = name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0;
    if (makes_empty && tensor.numel() > 0) uninitialised[tensor.storage().data()] = false;
    return on_device(tensor);
  }

  const c10::FunctionSchema& schema_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;  // the cuda:0 tensor and its CPU face
  const bool to_gpu_;
  bool writes_ = false;
};

struct MakingDeviceMemory {
  bool before = making_device_memory;
  explicit MakingDeviceMemory(bool on) { making_device_memory = on; }
  ~MakingDeviceMemory() { making_device_memory = before; }
};

bool names_cpu(const c10::IValue& value) { return value.isDevice() && value.toDevice().is_cpu(); }
bool names_gpu(const c10::IValue& value) { return value.isDevice() && value.toDevice().is_cuda(); }

bool is_on_gpu(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().is_cuda();
  return value.isList() && std::any_of(value.toListRef().begin(), value.toListRef().end(), is_on_gpu);
}

void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const auto arguments = stack->end() - static_cast<ptrdiff_t>(count);
  if (schema.name() == "aten::record_stream") {
    stack->erase(arguments, stack->end());
    return;
  }
  // An operator that an extension defines gets its cuda:0 arguments unchanged.
  if (schema.name().rfind("aten::", 0) != 0) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMode), stack);
    return;
  }
  const bool to_gpu = std::any_of(arguments, stack->end(), names_gpu) ||
                      (!std::any_of(arguments, stack->end(), names_cpu) &&
                       std::any_of(arguments, stack->end(), is_on_gpu));
  Call call(schema, to_gpu);
  for (size_t i = 0; i < count; ++i) {
    auto& argument = *(stack->end() - static_cast<ptrdiff_t>(count - i));
    argument = call.down(argument, schema.arguments()[i]);
  }
  const c10::impl::ExcludeDispatchKeyGuard plain(kMode);
  const MakingDeviceMemory making(to_gpu);
  op.callBoxed(stack);
  const size_t results = schema.returns().size();
  for (auto result = stack->end() - static_cast<ptrdiff_t>(results); result != stack->end(); ++result) {
    *result = call.up(*result);
  }
  call.follow_changes();
}

// ---- Device guards ---------------------------------------------------------------------------------

c10::Stream current() { return c10::Stream(c10::Stream::DEFAULT, kGpu); }

struct GuardImpl final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return kGpu; }
  c10::Device getDevice() const override { return kGpu; }
  c10::Stream getStream(c10::Device) const noexcept override { return current(); }
  c10::Stream getDefaultStream(c10::Device) const override { return current(); }
  c10::Stream getNewStream(c10::Device, int) const override { return current(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return current(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { (void)cudaDeviceSynchronize(); }
};

template <class Change>
PyObject* changed(PyObject* object, const Change& change) {
  try {
    return THPVariable_Wrap(change(THPVariable_Unpack(object)));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace

// Installs the bridge. Called once per process, in the first extension loaded, which then serves all extensions.
KW_EXPORT void kw_torch_install(void) {
  kw_sides_unknown();
  static Allocator allocator(c10::GetCPUAllocator());
  static torch::Library library(torch::Library::IMPL, "_", kMode, __FILE__, __LINE__);
  static const GuardImpl guard;
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
  c10::SetCPUAllocator(&allocator, 255);
  const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, &guard);
}

// Turns interception of this thread's operators on or off; returns the previous state.
KW_EXPORT int kw_torch_intercept(int on) {
  const bool before = c10::impl::tls_is_dispatch_key_included(kMode);
  c10::impl::tls_set_dispatch_key_included(kMode, on != 0);
  return before;
}

// Return a new cuda:0 tensor, or a new CPU tensor, on the memory of the given tensor.
KW_EXPORT PyObject* kw_torch_on_device(PyObject* tensor) { return changed(tensor, on_device); }
KW_EXPORT PyObject* kw_torch_on_host(PyObject* tensor) { return changed(tensor, on_host); }

// Returns 0 if the memory was initialised when allocated, 1 if it was not and no operator has written to it since, and
// 2 if it was not and an operator has written to it.
KW_EXPORT int kw_torch_uninitialised(const void* memory) {
  const auto found = uninitialised.find(memory);
  return found == uninitialised.end() ? 0 : found->second ? 2 : 1;
}
