// CUDA runtime API: memory. Every copy is checked against the allocations, and a copy that would crash returns an
// error as on a GPU.
#include "watch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace kw {

namespace {

cudaError_t refused(const HostCall& call, size_t bytes, const char* why) {
    report(&finding::kIllegalAddress, Severity::kError, at_code(call.code), nullptr,
           [&] { return format("%s of %zu bytes %s.", call.name, bytes, why); });
    return failed(call, cudaErrorInvalidValue);
}

// Returns a text on how the pointers contradict the stated direction of a copy; null if they agree with it.
const char* contradiction(const void* to, const void* from, cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDefault || sampling()) return nullptr;
    const bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
    const bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
    const Side source = side_of(from), target = side_of(to);
    if (source == Side::kDevice && from_host) return "is told that its source is the host's, and that is device memory";
    if (source == Side::kHost && !from_host) return "is told that its source is the device's, and that is host memory";
    if (target == Side::kDevice && to_host) return "is told that it goes to the host, and goes to device memory";
    if (target == Side::kHost && !to_host) return "is told that it goes to the device, and goes to host memory";
    return nullptr;
}

cudaError_t checked_copy(const HostCall& call, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return failed(call, cudaErrorInvalidMemcpyDirection);
    if (bytes == 0) return cudaSuccess;
    if (arena_extent(to, bytes) == Extent::kBeyond) return refused(call, bytes, "goes beyond its destination");
    if (arena_extent(from, bytes) == Extent::kBeyond) return refused(call, bytes, "goes beyond its source");
    if (sampling() && bytes >= KW_SAMPLED_BYTES) return cudaSuccess;
    const Recorded event(to, from, bytes);
    if (!copy_guarded(to, from, bytes)) return refused(call, bytes, "uses an invalid address");
    const char* why = contradiction(to, from, kind);
    if (why != nullptr) return refused(call, bytes, why);
    note_host_write(to, bytes);
    return cudaSuccess;
}

cudaError_t checked_fill(const HostCall& call, void* to, int byte, size_t bytes) {
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (bytes == 0) return cudaSuccess;
    if (!sampling() && side_of(to) == Side::kHost) return refused(call, bytes, "goes to host memory");
    if (arena_extent(to, bytes) == Extent::kBeyond) return refused(call, bytes, "goes beyond its destination");
    if (sampling() && bytes >= KW_SAMPLED_BYTES) return cudaSuccess;
    const Recorded event(to, byte, bytes);
    if (!fill_guarded(to, byte, bytes)) return refused(call, bytes, "uses an invalid address");
    note_host_write(to, bytes);
    return cudaSuccess;
}

cudaError_t allocate(const HostCall& call, void** pointer, size_t bytes) {
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (pointer == nullptr) return failed(call, cudaErrorInvalidValue);
    *pointer = bytes == 0 ? nullptr : kw_alloc(bytes);
    return bytes > 0 && *pointer == nullptr ? failed(call, cudaErrorMemoryAllocation) : cudaSuccess;
}

// Allocates memory that the host writes to directly. The record finds the host's writes as changes of the contents, so
// it also has the initial contents, whose bytes must differ from those that the host then writes.
cudaError_t allocate_for_host(const HostCall& call, void** pointer, size_t bytes) {
    const cudaError_t error = allocate(call, pointer, bytes);
    if (error != cudaSuccess || *pointer == nullptr) return error;
    add_visible(*pointer, bytes);
    if (sampling()) return error;
    const int byte = std::max(1, static_cast<int>(fresh_word() >> 24));
    const Recorded recorded(*pointer, byte, bytes);
    std::memset(*pointer, byte, bytes);
    return error;
}

cudaError_t release(const HostCall& call, void* pointer) {
    remove_visible(pointer);
    if (pointer == nullptr || release_piece(pointer)) return sticky_error();
    if (arena_extent(pointer, 0) != Extent::kInside) return failed(call, cudaErrorInvalidValue);
    kw_free(pointer);
    return sticky_error();
}

cudaError_t copy_rows(const HostCall& call, void* to, size_t to_pitch, const void* from, size_t from_pitch,
                      size_t width, size_t height, cudaMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch) return failed(call, cudaErrorInvalidValue);
    for (size_t row = 0; row < height; row++) {
        const cudaError_t error = checked_copy(call, static_cast<char*>(to) + row * to_pitch,
                                               static_cast<const char*>(from) + row * from_pitch, width, kind);
        if (error != cudaSuccess) return error;
    }
    return sticky_error();
}

}  // namespace

}  // namespace kw

using namespace kw;

#define KW_CALL(name) HostCall{#name, KW_CODE}

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) { return allocate(KW_CALL(cudaMalloc), pointer, bytes); }
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
    return allocate(KW_CALL(cudaMallocAsync), pointer, bytes);
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
    return allocate_for_host(KW_CALL(cudaMallocHost), pointer, bytes);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
    return allocate_for_host(KW_CALL(cudaHostAlloc), pointer, bytes);
}
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
    return allocate_for_host(KW_CALL(cudaMallocManaged), pointer, bytes);
}

cudaError_t cudaFree(void* pointer) { return release(KW_CALL(cudaFree), pointer); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return release(KW_CALL(cudaFreeAsync), pointer); }
cudaError_t cudaFreeHost(void* pointer) { return release(KW_CALL(cudaFreeHost), pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return checked_copy(KW_CALL(cudaMemcpy), to, from, bytes, kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    note_copy(to, bytes, stream, at_code(KW_CODE));
    return checked_copy(KW_CALL(cudaMemcpyAsync), to, from, bytes, kind);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
    return copy_rows(KW_CALL(cudaMemcpy2D), to, to_pitch, from, from_pitch, width, height, kind);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    note_copy(to, to_pitch * height, stream, at_code(KW_CODE));
    return copy_rows(KW_CALL(cudaMemcpy2DAsync), to, to_pitch, from, from_pitch, width, height, kind);
}

cudaError_t cudaMemset(void* to, int byte, size_t bytes) { return checked_fill(KW_CALL(cudaMemset), to, byte, bytes); }

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream) {
    note_work(stream, at_code(KW_CODE));
    return checked_fill(KW_CALL(cudaMemsetAsync), to, byte, bytes);
}

// A __constant__ or __device__ variable is an ordinary global here; kw/device.h checks its size.
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
    char* start = static_cast<char*>(const_cast<void*>(symbol));
    return checked_copy(KW_CALL(cudaMemcpyToSymbol), start + offset, from, bytes, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
    note_work(stream, at_code(KW_CODE));
    char* start = static_cast<char*>(const_cast<void*>(symbol));
    return checked_copy(KW_CALL(cudaMemcpyToSymbolAsync), start + offset, from, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return checked_copy(KW_CALL(cudaMemcpyFromSymbol), to, static_cast<const char*>(symbol) + offset, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
    note_copy(to, bytes, stream, at_code(KW_CODE));
    const char* start = static_cast<const char*>(symbol);
    return checked_copy(KW_CALL(cudaMemcpyFromSymbolAsync), to, start + offset, bytes, kind);
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
    *pointer = const_cast<void*>(symbol);
    return sticky_error();
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    *total_bytes = size_t{80} << 30;
    *free_bytes = *total_bytes;
    return sticky_error();
}

}  // extern "C"
