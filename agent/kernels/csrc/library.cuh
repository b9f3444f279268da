// C interface of a kernel's library. Every function takes the address of one struct of 8-byte fields.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#define KW_EXPORT extern "C" __attribute__((visibility("default")))

namespace kernelwright {

// Runs `f` with `device` current and restores the caller's current device.
template <typename F>
cudaError_t on_device(int64_t device, F f) {
    int before = 0;
    cudaError_t status = cudaGetDevice(&before);
    if (status != cudaSuccess) return status;
    if (before == device) return f();
    status = cudaSetDevice(int(device));
    if (status == cudaSuccess) status = f();
    const cudaError_t restored = cudaSetDevice(before);
    return status == cudaSuccess ? restored : status;
}

}  // namespace kernelwright

// Exports the launcher kernelwright::SPACE::FUNCTION(const ARGUMENTS&) under its own name.
#define KW_LAUNCHER(SPACE, FUNCTION, ARGUMENTS)                                                    \
    KW_EXPORT int FUNCTION(const void* packed) {                                                   \
        const auto& args = *static_cast<const kernelwright::SPACE::ARGUMENTS*>(packed);                      \
        return int(kernelwright::on_device(args.device, [&] { return kernelwright::SPACE::FUNCTION(args); }));         \
    }

// Exports kernelwright::SPACE::FUNCTION(const ARGUMENTS&), which only returns a number, under its own name.
#define KW_QUESTION(SPACE, FUNCTION, ARGUMENTS)                                                    \
    KW_EXPORT int64_t FUNCTION(const void* packed) {                                               \
        return kernelwright::SPACE::FUNCTION(*static_cast<const kernelwright::SPACE::ARGUMENTS*>(packed));             \
    }

KW_EXPORT const char* error_text(int code) { return cudaGetErrorString(cudaError_t(code)); }
