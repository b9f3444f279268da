// Order between streams, and host memory that a stream may still write to.
//
// On the emulator every CUDA call has finished when it returns, so wrong order has no effect. The state below tracks
// which work a stream, an event or the host knows to be done. On a GPU, work on a stream must wait for torch's current
// stream, and torch's current stream must wait for the work. The legacy default stream has a warning of its own
// (check_stream).
#include "watch.h"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <map>
#include <mutex>

namespace kw {

namespace {

// Number of pieces of work known to be done, for each stream.
using Done = std::map<cudaStream_t, uint64_t>;

// Copy to host memory that may still be in flight.
struct Landing {
    uintptr_t first;
    size_t bytes;
    cudaStream_t stream;
    uint64_t number;  // index of the copy in the stream's work
};

struct Streams {
    std::mutex mutex;
    std::map<cudaStream_t, Done> known;  // work that each stream knows to be done; its own entry: work it has received
    std::map<cudaEvent_t, Done> events;  // work that each event's completion proves to be done
    Done host;                           // work that the host knows to be done
    bool in_call = false;                // a call of forward is running
    cudaStream_t base = nullptr;  // torch's current stream when the call began
    uint64_t begun = 0;           // pieces of work that `base` had received when the call began
    std::map<cudaStream_t, Place> used;  // streams other than `base`, and the place of their last work in this call
    std::map<uintptr_t, size_t> visible;  // sizes of pinned and managed memory in the arena, which the host may use
    std::vector<Landing> landings;        // copies to pinned or managed memory that may be in flight
};

Streams& state() {
    static Streams* instance = new Streams;
    return *instance;
}

void merge(Done& to, const Done& from) {
    for (const auto& [stream, number] : from) to[stream] = std::max(to[stream], number);
}

bool is_default(cudaStream_t stream) {
    return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

bool is_visible(const Streams& s, uintptr_t address) {
    const auto after = s.visible.upper_bound(address);
    return after != s.visible.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

void drop_landed(Streams& s) {
    std::vector<Landing> left;
    for (const Landing& landing : s.landings) {
        if (s.host[landing.stream] < landing.number) left.push_back(landing);
    }
    s.landings = left;
}

// Notes one more piece of work of a stream and returns its number.
uint64_t add_work(Streams& s, cudaStream_t stream, const Place& place) {
    Done& known = s.known[stream];
    merge(known, s.host);
    const uint64_t number = ++known[stream];
    if (!s.in_call || is_default(stream) || stream == s.base) return number;
    s.used[stream] = place;
    if (known[s.base] >= s.begun) return number;
    known[s.base] = s.begun;  // prevents a second report for this stream
    report(&finding::kUnorderedStream, Severity::kError, place, nullptr, [] {
        return std::string("Work on a stream that does not wait for torch's current one, which makes the inputs and the "
                           "memory of the outputs. Use at::cuda::getCurrentCUDAStream(), or let the stream wait for an "
                           "event that was recorded on it.");
    });
    return number;
}

}  // namespace

void note_work(cudaStream_t stream, const Place& place) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    add_work(s, stream, place);
}

void add_visible(const void* first, size_t bytes) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.visible[reinterpret_cast<uintptr_t>(first)] = bytes;
}

void remove_visible(const void* first) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.visible.erase(reinterpret_cast<uintptr_t>(first));
}

// Notes an asynchronous copy; if it goes to pinned or managed memory, the host must wait for it before it uses the
// memory.
void note_copy(void* to, size_t bytes, cudaStream_t stream, const Place& place) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    const uint64_t number = add_work(s, stream, place);
    const auto address = reinterpret_cast<uintptr_t>(to);
    if (is_visible(s, address)) s.landings.push_back({address, bytes, stream, number});
}

// True if host tensors also lie in device memory, as with extensions built against torch's own headers.
std::atomic<bool> sides_unknown;

// Returns the side to which memory belongs. Static data may belong to either: it may be a __device__ variable.
Side side_of(const void* pointer) {
    if (sides_unknown) return Side::kEither;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    Streams& s = state();
    {
        const std::lock_guard<std::mutex> lock(s.mutex);
        if (is_visible(s, address)) return Side::kEither;
    }
    if (in_arena(address)) return Side::kDevice;
    Dl_info info;
    if (find_live_region(address) != nullptr || dladdr(pointer, &info) != 0) return Side::kEither;
    return Side::kHost;
}

// Called before host code reads or writes memory; reports accesses of device memory and of copies still in flight.
void host_access(const volatile void* pointer, size_t bytes, bool writes, uintptr_t code) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (!in_arena(address) || sides_unknown) return;
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!is_visible(s, address)) {
        return report(&finding::kDevicePointer, Severity::kError, at_code(code), nullptr, [&] {
            return format("Host code %s %zu bytes of device memory: beside a GPU that is a segmentation fault. Copy by "
                          "cudaMemcpy, or use a kernel.",
                          writes ? "writes" : "reads", bytes);
        });
    }
    for (const Landing& landing : s.landings) {
        if (address >= landing.first + landing.bytes || landing.first >= address + bytes) continue;
        report(&finding::kAsyncCopyNotWaited, Severity::kError, at_code(code), nullptr, [&] {
            return format("Host code %s pinned memory that an asynchronous copy may still be writing: wait for its stream "
                          "first (cudaStreamSynchronize).",
                          writes ? "overwrites" : "reads");
        });
    }
}

}  // namespace kw

using namespace kw;

extern "C" {

void kw_sides_unknown(void) { sides_unknown = true; }

void kw_call_begins(void) {
    if (!permitted("kw_call_begins")) return;
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.base = kw_current_stream();
    Done& known = s.known[s.base];
    merge(known, s.host);
    s.begun = ++known[s.base];
    s.used.clear();
    s.in_call = true;
}

void kw_call_ends(void) {
    if (!permitted("kw_call_ends")) return;
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.in_call) return;
    s.in_call = false;
    Done& known = s.known[s.base];
    merge(known, s.host);
    for (const auto& [stream, place] : s.used) {
        if (known[stream] >= s.known[stream][stream]) continue;
        report(&finding::kUnorderedStream, Severity::kError, place, nullptr, [] {
            return std::string("Work on a stream that torch's current one does not wait for before forward returns: who "
                               "uses the outputs may come before it. Record an event behind it, and let the current "
                               "stream wait for that.");
        });
    }
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    merge(s.known[stream], s.events[event]);
    return sticky_error();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.events[event] = s.known[stream];
    merge(s.events[event], s.host);
    return sticky_error();
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    merge(s.host, s.events[event]);
    drop_landed(s);
    return sticky_error();
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    merge(s.host, s.known[stream]);
    drop_landed(s);
    return sticky_error();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaDeviceSynchronize(void) {
    Streams& s = state();
    const std::lock_guard<std::mutex> lock(s.mutex);
    for (const auto& [stream, known] : s.known) merge(s.host, known);
    s.landings.clear();
    return sticky_error();
}

}  // extern "C"
