// Functions that Python calls, holding the GIL, in an extension built against torch's own headers (bridge.cpp).
// agent/contracts generates Python's view of them.
#pragma once
#include <Python.h>

#define KW_EXTENSION_MODULE "kw_extension"  // module name that PYBIND11_MODULE gets in the candidate's sources
#define KW_BRIDGE __attribute__((visibility("default")))

extern "C" {

// Installs this extension's bridge, which serves all extensions of the process.
KW_BRIDGE void kw_torch_install(void);

// Turns interception of this thread's operators on cuda:0 tensors on or off; returns the previous state.
KW_BRIDGE int kw_torch_intercept(int on);

// Return a new reference to a cuda:0 tensor on a CPU tensor's memory, and to a CPU tensor on a cuda:0 tensor's memory.
KW_BRIDGE PyObject* kw_torch_on_device(PyObject* tensor);
KW_BRIDGE PyObject* kw_torch_on_host(PyObject* tensor);

// Returns 0 if the memory was initialised when allocated, 1 if it was not and no operator has written to it since, and
// 2 if it was not and an operator has written to it.
KW_BRIDGE int kw_torch_uninitialised(const void* memory);
}
