// Record of a process's operations on device memory, as lines of JSON for a later replay: allocations, copies, fills,
// and launches with the bytes of their arguments.
//
// Addresses are recorded as they are: the replay maps the same range, and no memory is reused while the process
// records. A place in a library is recorded as path and offset. Host code can also write to device memory directly,
// because it is ordinary memory of the process. To notice such writes and record them as literal bytes, a copy of each
// small piece is kept. Direct writes to large pieces go unnoticed.
#include "json_formats.h"
#include "state.h"

#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vector>

namespace kw {

namespace {

constexpr size_t kSmallPiece = 64 << 10;  // largest piece, in bytes, of which a copy is kept

struct Record {
    std::mutex mutex;
    std::atomic<bool> on{false};
    std::string lines;
    std::map<char*, std::vector<char>> small;  // expected contents of each small piece, by its address
};

// Never destroyed: memory may still be freed while the process exits.
Record& record() {
    static Record* instance = new Record;
    return *instance;
}

std::string hexadecimal(const void* from, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char* p = static_cast<const unsigned char*>(from); bytes > 0; bytes--, p++) {
        text += digits[*p >> 4];
        text += digits[*p & 15];
    }
    return text;
}

std::string in_library(const Dl_info& info, const void* pointer) {
    const size_t offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(info.dli_fbase);
    return '[' + quoted(info.dli_fname) + ", " + std::to_string(offset) + ']';
}

// Returns an address as JSON: device memory as a number, data of a library as [path, offset], other memory as null.
std::string place_of(const void* pointer) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (in_arena(address)) return is_torchs_own(address) ? "null" : format("%zu", static_cast<size_t>(address));
    Dl_info info;
    return dladdr(pointer, &info) != 0 ? in_library(info, pointer) : "null";
}

void add_event(Record& r, const char* event, std::initializer_list<std::string> values) {
    r.lines += filled(event, values) + '\n';
}

void add_literal(Record& r, const std::string& to, const void* from, size_t bytes) {
    const std::string data = bytes <= KW_LARGEST_LITERAL ? '"' + hexadecimal(from, bytes) + '"' : "null";
    add_event(r, kWriteEvent, {to, std::to_string(bytes), data});
}

void settle(Record& r) {
    for (auto& [start, known] : r.small) {
        if (std::memcmp(start, known.data(), known.size()) == 0) continue;
        add_literal(r, place_of(start), start, known.size());
        std::memcpy(known.data(), start, known.size());
    }
}

void refresh(Record& r) {
    for (auto& [start, known] : r.small) std::memcpy(known.data(), start, known.size());
}

// Lists the words of the arguments that point into the kernel's own library, which the replay loads elsewhere.
std::string library_words(const kw_launch_request& request, const Dl_info& library) {
    std::string text;
    const char* bytes = static_cast<const char*>(request.arguments);
    for (size_t at = 0; at + sizeof(void*) <= request.argument_bytes; at += sizeof(void*)) {
        void* word;
        std::memcpy(&word, bytes + at, sizeof word);
        Dl_info info;
        if (dladdr(word, &info) == 0 || info.dli_fbase != library.dli_fbase) continue;
        text += (text.empty() ? "[" : ", [") + std::to_string(at) + ", " + in_library(info, word) + ']';
    }
    return text;
}

void add_launch(Record& record, const kw_launch_request& r) {
    Dl_info library;
    if (dladdr(reinterpret_cast<void*>(r.entry), &library) == 0) return add_event(record, kLostEvent, {});
    add_event(record, kLaunchEvent,
              {in_library(library, reinterpret_cast<void*>(r.entry)), quoted(r.name),
               format("[%u, %u, %u]", r.grid.x, r.grid.y, r.grid.z), format("[%u, %u, %u]", r.block.x, r.block.y, r.block.z),
               std::to_string(r.dynamic_bytes), std::to_string(r.line), r.cooperative != 0 ? "true" : "false",
               format("[%u, %u, %u]", r.cluster[0], r.cluster[1], r.cluster[2]),
               '"' + hexadecimal(r.arguments, r.argument_bytes) + '"', '[' + library_words(r, library) + ']'});
}

}  // namespace

bool recording() { return record().on; }

void record_allocation(void* pointer, size_t bytes) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.on) return;
    add_event(r, kAllocateEvent, {std::to_string(reinterpret_cast<uintptr_t>(pointer)), std::to_string(bytes)});
    char* start = static_cast<char*>(pointer);
    if (bytes > 0 && bytes <= kSmallPiece) r.small[start].assign(start, start + bytes);
}

void record_free(void* pointer) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    r.small.erase(static_cast<char*>(pointer));
}

Recorded::Recorded(const kw_launch_request& request) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.on) return;
    settle(r);
    add_launch(r, request);
}

Recorded::Recorded(void* to, const void* from, size_t bytes) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.on) return;
    settle(r);
    const std::string target = place_of(to), source = place_of(from);
    if (target == "null") return;  // a copy to the host affects the device only by later literals and arguments
    if (source == "null") {
        add_literal(r, target, from, bytes);
    } else {
        add_event(r, kMoveEvent, {target, source, std::to_string(bytes)});
    }
}

Recorded::Recorded(void* to, int byte, size_t bytes) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.on) return;
    settle(r);
    const std::string data = format("\"%02x\"", static_cast<unsigned>(byte) & 255);
    add_event(r, kFillEvent, {place_of(to), std::to_string(bytes), data});
}

Recorded::~Recorded() {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.on) refresh(r);
}

}  // namespace kw

using namespace kw;

extern "C" void kw_record(int on) {
    if (!permitted("kw_record")) return;
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    r.on = on != 0;
    if (!r.on) r.small.clear();
}

extern "C" void kw_record_settle(void) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.on) settle(r);
}

extern "C" void kw_record_note(const char* line) {
    if (!permitted("kw_record_note")) return;
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.on) return;
    refresh(r);
    (r.lines += line) += '\n';
}

extern "C" size_t kw_recorded(char* buffer, size_t capacity) {
    Record& r = record();
    const std::lock_guard<std::mutex> lock(r.mutex);
    return copy_text(r.lines, buffer, capacity);
}
