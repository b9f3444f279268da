// Bounds of the variables in shared memory, in bytes, and the findings about accesses outside of them.
#include "watch.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace kw {

uint8_t usable_shared[kSharedArena / 4 + 1];

namespace {

std::mutex variables_mutex;
std::vector<SharedVariable> variables;  // shared variables of the current launch
size_t usable_end;                      // index from which on all words of usable_shared are 0

}  // namespace

std::string SharedVariable::text() const {
    return line > 0 ? format("__shared__ '%s' (%zu bytes, line %d)", name.c_str(), bytes, line)
                    : format("the dynamic shared memory of the launch (%zu bytes)", bytes);
}

// Returns the shared variable that holds the offset or lies nearest to it; a variable of 0 bytes if there is none.
SharedVariable nearest_shared(size_t offset) {
    const std::lock_guard<std::mutex> lock(variables_mutex);
    SharedVariable best{0, 0, "", 0};
    size_t least = SIZE_MAX;
    for (const SharedVariable& v : variables) {
        size_t distance = 0;
        if (offset < v.offset) distance = v.offset - offset;
        if (offset >= v.offset + v.bytes) distance = offset - v.offset - v.bytes + 1;
        if (distance >= least) continue;
        least = distance;
        best = v;
    }
    return best;
}

void report_outside_shared(Watch& watch, size_t offset, size_t bytes, Access access, uintptr_t code) {
    const bool read = access == Access::kRead;
    Kind kind = read ? &finding::kSharedOutOfBoundsRead : &finding::kSharedOutOfBoundsWrite;
    watch.reported = watch.shared + offset;
    report(kind, Severity::kError, at_code(code), watch.worker, [&] {
        const SharedVariable v = nearest_shared(offset);
        const char* verb = read ? "Reads" : "Writes";
        if (v.bytes == 0) {
            return format("%s %zu bytes of shared memory, and the launch has none: the third argument of <<<>>> is "
                          "the size of dynamic shared memory.",
                          verb, bytes);
        }
        const size_t end = v.offset + v.bytes;
        if (offset + bytes > end) {
            return format("%s %zu bytes up to %zu bytes past the end of %s.", verb, bytes, offset + bytes - end,
                          v.text().c_str());
        }
        return format("%s %zu bytes, %zu bytes before the start of %s.", verb, bytes, v.offset - offset,
                      v.text().c_str());
    });
}

void report_unwritten_shared(Watch& watch, size_t offset, uintptr_t code) {
    report(&finding::kSharedUninitialisedRead, Severity::kError, at_code(code), watch.worker, [&] {
        const SharedVariable v = nearest_shared(offset);
        return format("Reads byte %zu of %s, which no thread of this block has written: shared memory is not "
                      "cleared on a GPU.",
                      offset - v.offset, v.text().c_str());
    });
}

void begin_shared_bounds() {
    const std::lock_guard<std::mutex> lock(variables_mutex);
    variables.clear();
    std::memset(usable_shared, 0, usable_end);
    usable_end = 0;
}

void add_shared_bounds(size_t offset, size_t bytes, const char* name, int line) {
    if (bytes == 0) return;
    const std::lock_guard<std::mutex> lock(variables_mutex);
    variables.push_back(SharedVariable{offset, bytes, name, line});
    std::memset(usable_shared + offset / 4, 15, bytes / 4);
    if (bytes % 4 != 0) usable_shared[(offset + bytes) / 4] = static_cast<uint8_t>((1 << bytes % 4) - 1);
    usable_end = std::max(usable_end, (offset + bytes) / 4 + 1);
}

}  // namespace kw
