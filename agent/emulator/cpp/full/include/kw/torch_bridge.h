// Functions that Python calls, holding the GIL, in an extension built against torch's own headers (bridge.cpp).
// agent/contracts generates Python's view of them.
#pragma once
#include <Python.h>

#define KW_EXTENSION_MODULE "kw_extension"  // module name that the sources' PYBIND11_MODULE gets
#define KW_BRIDGE __attribute__((visibility("default")))

extern "C" {

// Installs the extension's bridge as the only one of this process.
KW_BRIDGE void kw_torch_install(void);

// Turns interception of this thread's operators on cuda:0 tensors on or off; returns the previous state.
KW_BRIDGE int kw_torch_intercept(int on);

// Return the cuda:0 tensor that shares a CPU tensor's memory, and the reverse; new references.
KW_BRIDGE PyObject* kw_torch_on_device(PyObject* tensor);
KW_BRIDGE PyObject* kw_torch_on_host(PyObject* tensor);

// Returns 0: the memory was initialised when allocated; 1: it was not, and no operator wrote to it since; 2: one did.
KW_BRIDGE int kw_torch_uninitialised(const void* memory);
}
