// CUDA's error state, error texts and kernel attributes.
//
// An illegal launch sets an error that cudaGetLastError clears. A fault inside a kernel sets a sticky error that
// every later call returns (until cudaDeviceReset). An error that the host never queries surfaces at the next query;
// with torch that is in some unrelated operator.
#include "state.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <optional>

namespace kw {

namespace {

struct ErrorText {
    cudaError_t error;
    const char* name;
    const char* text;
};

// Names and texts of errors, as in the CUDA runtime.
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
};

constexpr ErrorText kUnknown = {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};

std::atomic<cudaError_t> last_error{cudaSuccess};
std::atomic<cudaError_t> context_error{cudaSuccess};

// The last error that the host has not queried.
struct Unasked {
    cudaError_t error;
    std::string what;
    Place place;
};
std::mutex unasked_mutex;
std::optional<Unasked> unasked;

void forget_unasked() {
    const std::lock_guard<std::mutex> lock(unasked_mutex);
    unasked.reset();
}

std::mutex limits_mutex;
std::map<std::string, size_t> limits_by_kernel;
std::map<std::string, bool> large_clusters;  // kernel name -> true if its clusters may exceed the portable size
size_t highest_limit = kDefaultSharedLimit;  // highest limit of any kernel, in bytes
size_t unnamed_limit;  // limit that was set without a kernel's name, in bytes; 0: never set

const ErrorText& described(cudaError_t error) {
    for (const ErrorText& entry : kErrors) {
        if (entry.error == error) return entry;
    }
    return kUnknown;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

void set_error(cudaError_t error, std::string what, const Place& place) {
    last_error = error;
    const std::lock_guard<std::mutex> lock(unasked_mutex);
    unasked = Unasked{error, std::move(what), place};
}

cudaError_t failed(const HostCall& call, cudaError_t error) {
    set_error(error, call.name, at_code(call.code));
    return error;
}

void set_sticky_error(cudaError_t error) {
    cudaError_t none = cudaSuccess;
    context_error.compare_exchange_strong(none, error);
}

void forget_errors() {
    last_error = cudaSuccess;
    context_error = cudaSuccess;
}

cudaError_t sticky_error() { return context_error; }

// Extracts a kernel's name: "(const void*)ns::kernel<float, 4>, attribute, 65536" -> "kernel"; "&kernel<T>" ->
// "kernel".
std::string base_name(const std::string& text) {
    std::string name;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        const bool cast = c == '(' || c == '*' || c == '&' || c == ')' || c == ' ';
        if (c == '<' && (name == "reinterpret_cast" || name == "static_cast")) {
            i = text.find('>', i);
            if (i == std::string::npos) return name;
            name.clear();
        } else if (c == '(' && i + 1 < text.size() && name.empty()) {
            const size_t close = text.find(')', i);
            const bool is_cast = close != std::string::npos && close > 0 && text[close - 1] == '*';
            if (is_cast) i = close;
        } else if (is_word(c)) {
            name += c;
        } else if (c == ':' || (cast && name.empty())) {
            name.clear();
        } else if (!name.empty()) {
            return name;
        }
    }
    return name;
}

// Returns the shared-memory limits of a launch of this kernel. A launch through a function pointer gets the highest
// limit of any kernel, because the kernel's name is not known.
SharedLimits shared_limits_of(const char* name, bool by_pointer) {
    const std::lock_guard<std::mutex> lock(limits_mutex);
    const auto found = limits_by_kernel.find(base_name(name));
    const bool named = found != limits_by_kernel.end();
    const bool asked = named || unnamed_limit != 0 || (by_pointer && !limits_by_kernel.empty());
    if (!asked) return {kDefaultSharedLimit, kDefaultSharedLimit};
    const size_t dynamic = by_pointer ? highest_limit : named ? found->second : kDefaultSharedLimit;
    return {std::max(unnamed_limit, dynamic), kOptInSharedLimit};
}

// Returns true if the kernel may have clusters of more than eight blocks, which need an attribute. For a launch through
// a function pointer it suffices that any kernel has the attribute.
bool may_have_large_clusters(const char* name, bool by_pointer) {
    const std::lock_guard<std::mutex> lock(limits_mutex);
    if (by_pointer || large_clusters.count("") != 0) return !large_clusters.empty();
    const auto found = large_clusters.find(base_name(name));
    return found != large_clusters.end() && found->second;
}

}  // namespace kw

using namespace kw;

extern "C" {

cudaError_t cudaGetLastError(void) {
    forget_unasked();
    const cudaError_t error = last_error.exchange(cudaSuccess);
    return sticky_error() != cudaSuccess ? sticky_error() : error;
}

cudaError_t cudaPeekAtLastError(void) {
    forget_unasked();
    return sticky_error() != cudaSuccess ? sticky_error() : last_error.load();
}

void kw_host_returned(void) {
    if (!permitted("kw_host_returned")) return;
    const std::lock_guard<std::mutex> lock(unasked_mutex);
    if (!unasked) return;
    report(&finding::kUncheckedLaunchError, Severity::kWarning, unasked->place, nullptr, [] {
        return format("%s failed (%s) and the host code never asked: the error stays behind until some innocent "
                      "call finds it. Write C10_CUDA_KERNEL_LAUNCH_CHECK() after each launch and C10_CUDA_CHECK() "
                      "around each call of CUDA's API.",
                      unasked->what.c_str(), cudaGetErrorString(unasked->error));
    });
    unasked.reset();
}

cudaError_t kw_fail(const char* call, cudaError_t error) { return failed(HostCall{call, KW_CODE}, error); }

const char* cudaGetErrorString(cudaError_t error) { return described(error).text; }

const char* cudaGetErrorName(cudaError_t error) { return described(error).name; }

cudaError_t cudaDeviceReset(void) {
    forget_errors();
    forget_unasked();
    const std::lock_guard<std::mutex> lock(limits_mutex);
    limits_by_kernel.clear();
    large_clusters.clear();
    highest_limit = kDefaultSharedLimit;
    unnamed_limit = 0;
    return cudaSuccess;
}

cudaError_t kw_set_function_attribute(const char* text, cudaFuncAttribute attribute, int value) {
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        const std::lock_guard<std::mutex> lock(limits_mutex);
        large_clusters[base_name(text)] = value != 0;
        return cudaSuccess;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > kOptInSharedLimit) {
        return failed(HostCall{"cudaFuncSetAttribute", KW_CODE}, cudaErrorInvalidValue);
    }
    const std::lock_guard<std::mutex> lock(limits_mutex);
    const size_t limit = std::max(static_cast<size_t>(value), kDefaultSharedLimit);
    highest_limit = std::max(highest_limit, limit);
    limits_by_kernel[base_name(text)] = limit;
    return cudaSuccess;
}

// Called only from code without the macro of kw/device.h, so without a kernel's name. The attribute holds for all
// kernels.
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
    const cudaError_t error = kw_set_function_attribute("", attribute, value);
    if (error == cudaSuccess) {
        const std::lock_guard<std::mutex> lock(limits_mutex);
        unnamed_limit = highest_limit;
    }
    return error;
}

cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return sticky_error(); }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = cudaFuncAttributes{};
    attributes->maxThreadsPerBlock = kMaxThreads;
    attributes->maxDynamicSharedSizeBytes = kDefaultSharedLimit;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 90;
    return sticky_error();
}

}  // extern "C"
