// C interface between a built extension and the process that loads it.
//
// An extension never touches libtorch. Its at::Tensor is a view of a `kw_tensor` that Python owns, and every tensor
// operation is a call back to Python by operator name. agent/contracts generates Python's declarations from this
// header, and KW_ABI_VERSION, a digest of the declarations.
#pragma once
#include <cstdint>

#define KW_ABI_VERSION 0x58384aa4
#define KW_MAX_DIMS 16
#define KW_EXPORT __attribute__((visibility("default")))

extern "C" {

enum kw_tag : int32_t {
  KW_ABSENT = 0,  // an argument that was not passed
  KW_NONE,
  KW_TENSOR,
  KW_INT,
  KW_FLOAT,
  KW_BOOL,
  KW_STRING,
  KW_LIST,           // `items` has `length` values
  KW_TUPLE,          // `items` has `length` values
  KW_DTYPE,          // integer = c10::ScalarType
  KW_DEVICE_NAME,    // text = "cuda:0"
  KW_MEMORY_FORMAT,  // integer = c10::MemoryFormat
  KW_LAYOUT,         // integer = c10::Layout
  KW_SLICE,          // items[3], each KW_INT or KW_NONE
  KW_ELLIPSIS,
  KW_OPTIONS,  // items[4]: dtype, device, requires_grad, memory format; each may be KW_ABSENT
  KW_OTHER,    // a Python object that cannot be passed to C++
};

// Flags of a tensor.
enum kw_flag : int32_t {
  KW_REQUIRES_GRAD = 1,
  KW_CONTIGUOUS = 2,
  KW_CHANNELS_LAST = 4,  // contiguous as channels_last
};

// Metadata of a tensor, which C++ reads without a call. Python owns the struct and keeps it until `release(handle)`.
struct kw_tensor {
  int64_t handle;
  void* data;
  int64_t numel;
  int32_t dtype;  // c10::ScalarType
  int32_t dim;
  int32_t on_gpu;
  int32_t flags;  // kw_flag
  int64_t sizes[KW_MAX_DIMS];
  int64_t strides[KW_MAX_DIMS];
};

struct kw_value {
  int32_t tag;
  int32_t unused;
  union {
    int64_t integer;
    double real;
    const kw_tensor* tensor;
    const char* text;
    const kw_value* items;
  };
  int64_t length;  // number of items, or of bytes of text
};

// Functions of the loading process, passed to kw_open. `call` returns 0, or 1 with the error text in `result`. Memory
// that `result` points to lives until the next call, and a tensor in it until its release. Tensors in the arguments of
// kw_invoke belong to Python, so the extension calls `retain` for each tensor that it keeps.
struct kw_host {
  int32_t version;
  int32_t (*call)(const char* name, const kw_value* arguments, int64_t count, kw_value* result);
  void (*retain)(int64_t handle);
  void (*release)(int64_t handle);
};

// Status that kw_invoke returns. KW_MISMATCH: the arguments do not fit, so the caller tries the next overload.
enum kw_status : int32_t {
  KW_OK = 0,
  KW_MISMATCH,
  KW_RUNTIME_ERROR,
  KW_VALUE_ERROR,
  KW_TYPE_ERROR,
  KW_INDEX_ERROR,
  KW_NOT_IMPLEMENTED,
};

// Exported functions of an extension (host_entry.h).
KW_EXPORT int32_t kw_open(const kw_host* given, kw_value* result);
KW_EXPORT void kw_close();
KW_EXPORT int32_t kw_invoke(int64_t index, const kw_value* arguments, int64_t count, const char* const* keywords,
                            int64_t keyword_count, kw_value* result);
KW_EXPORT void kw_forget();
}
