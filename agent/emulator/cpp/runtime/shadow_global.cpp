// Races between blocks of one launch in global memory, and which words a kernel ever wrote.
//
// A plain write conflicts with what any other block does to the same bytes in the same launch, unless the
// earlier block ran __threadfence() and the later one has looked at something atomically: that is how
// blocks hand over results in a correct kernel. Two atomics never conflict.
#include "watch.h"

#include <cstring>

namespace kw {

namespace {

uint8_t fenced[0x10000];  // by block, as cells number them
std::atomic<bool> any_fence;

void report_conflict(const Watch& watch, Severity severity, const Conflict& conflict) {
    Kind kind = &finding::kGlobalRaceBetweenBlocks;
    report(kind, severity, at_code(conflict.code), watch.worker, [&] {
        const std::string who = conflict.block == kSeveral
                                    ? std::string("several other blocks")
                                    : format("another block (number %lu)", conflict.block - 1);
        return format("%s what %s %s in the same launch. Blocks run in any order and at the same time: use "
                      "atomics, or a second launch.%s",
                      conflict.did, who.c_str(), conflict.other_did,
                      severity == Severity::kWarning ? " Both store the same value, which works on today's GPUs."
                                                     : "");
    });
}

}  // namespace

void publish_block_fence(Watch& watch) {
    fenced[watch.block] = 1;
    any_fence = true;
}

void forget_block_fences() {
    if (!any_fence) return;
    std::memset(fenced, 0, sizeof fenced);
    any_fence = false;
}

void global_conflict(Watch& watch, uintptr_t address, Access access, uintptr_t code, uint64_t cell,
                     bool against_reader) {
    const uint64_t other = cell >> (against_reader ? 16 : 32) & 0xffff;
    const bool published = other == kSeveral ? any_fence.load() : fenced[other] != 0;
    if (published && watch.acquired) return;
    const bool atomic_writer = !against_reader && (cell & kAtomicWriter) != 0;
    const Conflict conflict{access == Access::kRead     ? "Reads"
                            : access == Access::kAtomic ? "Updates atomically"
                                                        : "Overwrites",
                            against_reader ? "read" : atomic_writer ? "updated atomically" : "wrote", other, code};
    if (access == Access::kWrite && !against_reader && !atomic_writer) {
        const char* word = reinterpret_cast<const char*>(address & ~uintptr_t{3});
        if (!begin_pending(watch, word, 4, code)) return;
        watch.write.global = true;
        watch.write.conflict = conflict;
        return;
    }
    report_conflict(watch, Severity::kError, conflict);
}

void settle_global_write(Watch& watch) {
    const bool same = std::memcmp(watch.write.address, watch.write.before, watch.write.bytes) == 0;
    report_conflict(watch, same ? Severity::kWarning : Severity::kError, watch.write.conflict);
}

// Bytes that the host wrote (cudaMemset, cudaMemcpy) count as written.
void note_host_write(const void* first, size_t bytes) {
    if (!checks_wanted()) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    Region* region = find_live_region(address);
    if (region == nullptr || bytes > region->bytes - (address - region->first)) return;
    uint64_t* cells = cells_of(*region);
    if (cells == nullptr) return;
    const size_t from = (address >> 2) - (region->first >> 2);
    for (size_t k = 0; k < (bytes + 3) / 4; k++) cells[from + k] |= 15;
}

}  // namespace kw

using namespace kw;

// How many elements of [first, first + count * element) still hold what fresh device memory holds and
// were never written by a kernel while checks were on; *index becomes that of the first one.
extern "C" size_t kw_unwritten(const void* first, size_t count, size_t element, size_t* index) {
    const char* bytes = static_cast<const char*>(first);
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    Region* region = find_live_region(address);
    if (region == nullptr || count * element > region->bytes - (address - region->first)) return 0;
    const uint64_t* cells = region->cells;
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        const char* at = bytes + k * element;
        const uintptr_t place = address + k * element;
        const uint64_t written = cells == nullptr ? 0 : cells[(place >> 2) - (region->first >> 2)] & 15;
        if ((written & byte_mask(place, element)) != 0) continue;
        if (!is_fresh(at, element)) continue;
        if (found++ == 0) *index = k;
    }
    return found;
}
