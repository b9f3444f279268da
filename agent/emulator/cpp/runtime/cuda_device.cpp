// CUDA runtime API: the device (an "emulated sm_90" with the limits of an H100), streams and events.
//
// Every call is synchronous, so a stream is only a name, and an event is complete once recorded. torch's current
// stream is still tracked, because a launch on another stream is wrong on a GPU. Nothing here measures time: the
// elapsed time between two events is NaN.
#include "state.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace kw {

namespace {

std::atomic<uintptr_t> next_handle{0x1000};
KW_TLS cudaStream_t current_stream;
int stack_limit = 1024;  // bytes per thread

// Returns true for a default stream: null or one of CUDA's two handles for it.
bool is_default(cudaStream_t stream) {
    return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

template <class Handle>
cudaError_t make_handle(Handle* handle) {
    *handle = reinterpret_cast<Handle>(next_handle += 16);
    return sticky_error();
}

// Returns an upper bound of the resident blocks per multiprocessor, from threads, blocks and shared memory. Register
// use is not known.
int resident_blocks(int block_size, size_t dynamic_bytes) {
    if (block_size < 1 || block_size > kMaxThreads) return 0;
    const size_t by_shared = kSharedPerMultiprocessor / (dynamic_bytes + kReservedSharedPerBlock);
    const int by_threads = kThreadsPerMultiprocessor / ((block_size + kWarpSize - 1) / kWarpSize * kWarpSize);
    return std::min({by_threads, kBlocksPerMultiprocessor, static_cast<int>(by_shared)});
}

}  // namespace

void check_stream(const kw_launch_request& request) {
    note_work(request.stream, at_line(request.line));
    if (!is_default(request.stream) || is_default(current_stream)) return;
    report(&finding::kDefaultStream, Severity::kWarning, request.line, nullptr, [&] {
        return format("Kernel %s is launched on the default stream, but torch's current stream is another one: the "
                      "kernel does not wait for what makes its inputs, and nothing waits for its result. Pass "
                      "at::cuda::getCurrentCUDAStream() as the fourth argument of the launch.",
                      request.name);
    });
}

}  // namespace kw

using namespace kw;

extern "C" {

cudaStream_t kw_current_stream(void) { return current_stream; }
void kw_set_current_stream(cudaStream_t stream) { current_stream = stream; }

cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return sticky_error();
}

cudaError_t cudaSetDevice(int device) {
    if (device == 0) return sticky_error();
    return failed(HostCall{"cudaSetDevice", KW_CODE}, cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return sticky_error();
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return sticky_error(); }

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    if (limit == cudaLimitStackSize) stack_limit = static_cast<int>(std::min<size_t>(value, INT_MAX));
    return sticky_error();
}

// Reports recursion beyond the stack limit, which applies because the compiler cannot know how deep recursion goes.
// Twice the limit is tolerated, because parts of a function's frame may be kept in registers.
void kw_stack(int bytes, int line) {
    Thread& thread = current_worker->threads[current_worker->current];
    thread.stack += bytes;
    if (bytes < 0 || thread.stack / 2 <= stack_limit) return;
    report(&finding::kDeviceStackOverflow, Severity::kError, line, current_worker, [&] {
        return format("Recursion takes more than the %d bytes of stack that a thread has on a GPU: use a loop, or raise "
                      "cudaLimitStackSize by cudaDeviceSetLimit.",
                      stack_limit);
    });
}


cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = cudaDeviceProp{};
    std::snprintf(properties->name, sizeof properties->name, "emulated sm_90");
    properties->major = kComputeMajor;
    properties->minor = kComputeMinor;
    properties->totalGlobalMem = kGlobalMemory;
    properties->totalConstMem = kConstantMemory;
    properties->sharedMemPerBlock = kDefaultSharedLimit;
    properties->sharedMemPerBlockOptin = kOptInSharedLimit;
    properties->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
    properties->reservedSharedMemPerBlock = kReservedSharedPerBlock;
    properties->regsPerBlock = properties->regsPerMultiprocessor = kRegistersPerMultiprocessor;
    properties->warpSize = kWarpSize;
    properties->maxThreadsPerBlock = kMaxThreads;
    properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
    properties->maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
    properties->multiProcessorCount = kMultiprocessors;
    properties->maxThreadsDim[0] = kMaxBlockX;
    properties->maxThreadsDim[1] = kMaxBlockY;
    properties->maxThreadsDim[2] = kMaxBlockZ;
    properties->maxGridSize[0] = kMaxGridX;
    properties->maxGridSize[1] = kMaxGridY;
    properties->maxGridSize[2] = kMaxGridZ;
    properties->l2CacheSize = kL2CacheBytes;
    properties->memoryBusWidth = 5120;
    properties->concurrentKernels = properties->unifiedAddressing = properties->managedMemory = 1;
    return sticky_error();
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = kDefaultSharedLimit; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kOptInSharedLimit; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = kSharedPerMultiprocessor; break;
        case cudaDevAttrTotalConstantMemory: *value = static_cast<int>(p.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        default: *value = 0; break;  // a capability that is not emulated
    }
    return sticky_error();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size,
                                                          size_t dynamic_bytes) {
    *blocks = resident_blocks(block_size, dynamic_bytes);
    return sticky_error();
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int block_size,
                                                                   size_t dynamic_bytes, unsigned) {
    *blocks = resident_blocks(block_size, dynamic_bytes);
    return sticky_error();
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_handle(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return make_handle(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return make_handle(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return sticky_error(); }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return make_handle(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make_handle(event); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return sticky_error(); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = NAN;
    return sticky_error();
}

}  // extern "C"
