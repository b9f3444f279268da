// What Python calls of an extension that was built against torch's own headers (bridge.cpp), with the interpreter's
// lock held. Python's view is generated (agent/emulator/contracts).
#pragma once
#include <Python.h>

#define KW_EXTENSION_MODULE "kw_extension"  // the name that the sources' PYBIND11_MODULE gets
#define KW_BRIDGE __attribute__((visibility("default")))

extern "C" {

// Makes it the one bridge of this process.
KW_BRIDGE void kw_torch_install(void);

// Whether operators on tensors of cuda:0 come here from now on, in this thread; returns what held before.
KW_BRIDGE int kw_torch_intercept(int on);

// The tensor of cuda:0 that shares the memory of a CPU tensor, and the way back; new references.
KW_BRIDGE PyObject* kw_torch_on_device(PyObject* tensor);
KW_BRIDGE PyObject* kw_torch_on_host(PyObject* tensor);

// 0: initialised when it was made; 1: not, and no operator wrote to it since; 2: not, and one did.
KW_BRIDGE int kw_torch_uninitialised(const void* memory);
}
