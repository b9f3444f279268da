// Templates over kernels and device variables that NVIDIA's cuda_runtime.h defines only under nvcc.
// Part of kw/device.h.
#pragma once

namespace kw {

template <class T>
bool within(size_t bytes, size_t offset) {
    return offset <= sizeof(T) && bytes <= sizeof(T) - offset;
}

}  // namespace kw

template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    if (!kw::within<T>(bytes, offset)) return kw_fail("cudaMemcpyToSymbol", cudaErrorInvalidValue);
    return cudaMemcpyToSymbol(static_cast<const void*>(&symbol), from, bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                    cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = nullptr) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    if (!kw::within<T>(bytes, offset)) return kw_fail("cudaMemcpyFromSymbol", cudaErrorInvalidValue);
    return cudaMemcpyFromSymbol(to, static_cast<const void*>(&symbol), bytes, offset, kind);
}

template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t = nullptr) {
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}

template <class T>
cudaError_t cudaGetSymbolAddress(void** pointer, const T& symbol) {
    return cudaGetSymbolAddress(pointer, static_cast<const void*>(&symbol));
}

template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
    *bytes = sizeof(T);
    return cudaSuccess;
}

template <class... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(P...)) {
    return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}

template <class... P>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(P...), cudaFuncCache config) {
    return cudaFuncSetCacheConfig(reinterpret_cast<const void*>(kernel), config);
}

template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(P...), int block_size,
                                                          size_t dynamic_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(kernel), block_size,
                                                         dynamic_bytes);
}

namespace kw {

template <class Kernel>
cudaError_t set_function_attribute(const char* text, Kernel, cudaFuncAttribute attribute, int value) {
    return kw_set_function_attribute(text, attribute, value);
}

}  // namespace kw

// Passes the arguments as text too, because the text has the kernel's name with its template arguments.
#define cudaFuncSetAttribute(...) kw::set_function_attribute(#__VA_ARGS__, __VA_ARGS__)
