// Races in global memory, between blocks of one launch and between warps of a block, and which words were ever
// written.
//
// A plain write conflicts with accesses of the same bytes by other blocks in the same launch, and by other warps since
// the last barrier, unless fences and flags order the two (happens_before.cpp). Two atomics never conflict.
#include "watch.h"

#include <algorithm>
#include <cstring>

namespace kw {

namespace {

void report_conflict(const Watch& watch, Severity severity, const Conflict& conflict) {
    const bool within = conflict.block == watch.block;
    const Kind kind = within ? &finding::kGlobalRaceWithinBlock : &finding::kGlobalRaceBetweenBlocks;
    report(kind, severity, at_code(conflict.code), watch.worker, [&] {
        const std::string who = within ? (conflict.warp < 0 ? std::string("several warps of the block")
                                                            : format("warp %d of the block", conflict.warp))
                                : conflict.block == kSeveral
                                    ? std::string("several other blocks")
                                    : format("another block (number %lu)", conflict.block - 1);
        const char* advice = within ? "with no barrier in between, nor a fence and a flag that it has waited for: use "
                                      "__syncthreads()."
                                    : "in the same launch. Blocks run in any order and at the same time: use atomics, or "
                                      "a second launch.";
        return format("%s what %s %s %s%s", conflict.did, who.c_str(), conflict.other_did, advice,
                      severity == Severity::kWarning ? " Both store the same value, which works on today's GPUs."
                                                     : "");
    });
}

// An earlier access, as noted in a cell.
struct Past {
    uint64_t block;
    uint32_t half;  // half of GlobalCell::threads: warp and clock of the access
    bool was_read, was_atomic;
};

const char* verb(Access access) {
    switch (access) {
        case Access::kRead: return "Reads";
        case Access::kWrite: return "Overwrites";
        case Access::kAtomic: return "Updates atomically";
        default: return "Updates, atomically for its own block alone,";
    }
}

void conflict(Watch& watch, uintptr_t address, Access access, uintptr_t code, const Past& past) {
    const int warp = past.was_read && (past.half & kMarked) != 0 ? -1 : static_cast<int>((past.half & kWarpBits) >> kWarpAt);
    const auto ordered = [&] {
        return past.block == kSeveral ? has_learned_anything(watch)
                                      : happened_before(watch, past.block, warp, past.half >> kClockAt);
    };
    if (ordered()) return;
    settle_polls(watch);
    if (ordered()) return;
    const Conflict found{verb(access), past.was_read ? "read" : past.was_atomic ? "updated atomically" : "wrote",
                         past.block, warp, code};
    if (access == Access::kWrite && !past.was_read && !past.was_atomic) {
        const char* word = reinterpret_cast<const char*>(address & ~uintptr_t{3});
        if (!begin_pending(watch, word, 4, code)) return;
        watch.write.global = true;
        watch.write.conflict = found;
        return;
    }
    report_conflict(watch, Severity::kError, found);
}

// Returns true for a plain store right after a fence. Other threads may wait for it, so it publishes like an atomic
// store.
bool is_signal(Watch& watch, Access access, uintptr_t address) {
    uint8_t& left = watch.signals[watch.worker->current];
    if (access != Access::kWrite || left == 0) return false;
    left--;
    publish_at(watch, address, false);
    return true;
}

// Compares an access with the last write in the cell, and reports a conflict.
void check_writer(Watch& watch, uint64_t c, uint32_t half, uint64_t mask, Access access, bool signals,
                  uintptr_t address, uintptr_t code) {
    const uint64_t writer = c >> 32 & 0xffff;
    if (writer == 0 || (c >> 4 & mask) == 0) return;
    const bool within = writer == watch.block;
    const bool atomically = within ? (half & kMarked) != 0 : (c & kAtomicWriter) != 0;
    const bool for_block_alone = access == Access::kBlockAtomic && !within;
    if (atomically && !for_block_alone && (access != Access::kWrite || signals)) return;
    if (access == Access::kAtomic && (c & kSignal) != 0) return;
    if (within && ((half & mask) == 0 || !is_elsewhere(watch, half, stamp_of(watch)))) return;
    conflict(watch, address, access, code, Past{writer, half, false, atomically});
}

// Compares a plain store with the reads in the cell, and reports a conflict.
void check_readers(Watch& watch, uint64_t c, uint32_t half, uint64_t mask, uintptr_t address, uintptr_t code) {
    const uint64_t reader = c >> 16 & 0xffff;
    if (reader == 0 || (c >> 8 & mask) == 0) return;
    if (reader == watch.block) {
        if ((half & mask) == 0 || half < watch.barrier_mark) return;
        if ((half & kMarked) == 0 && !is_elsewhere(watch, half, stamp_of(watch))) return;
    }
    conflict(watch, address, Access::kWrite, code, Past{reader, half, true, false});
}

uint64_t with_reader(uint64_t c, uint64_t me, uint64_t mask) {
    const uint64_t reader = c >> 16 & 0xffff, read = c >> 8 & 15;
    if (reader == me || reader == 0 || (read & mask) == 0) {
        return (c & ~(kSeveral << 16 | 15 << 8)) | me << 16 | (reader == me ? read | mask : mask) << 8;
    }
    if (reader == kSeveral) return c;
    return (c & ~(uint64_t{15} << 8)) | kSeveral << 16 | (read & mask) << 8;
}

uint64_t with_writer(uint64_t c, uint64_t me, uint64_t mask, bool atomic, bool signals) {
    const bool again = (c >> 32 & 0xffff) == me && ((c & kAtomicWriter) != 0) == atomic;
    const uint64_t kept = again ? c >> 4 & 15 : 0;
    c = (c & ~(kSeveral << 32 | 15 << 4 | kAtomicWriter | kSignal)) | me << 32 | (kept | mask) << 4 | mask;
    return c | (atomic ? kAtomicWriter : 0) | (signals ? kSignal : 0);
}

}  // namespace

// Checks and notes an access of the bytes in `mask` of the word at `cell`.
void global_access(Watch& watch, GlobalCell* cell, uint64_t mask, Access access, uintptr_t address, uintptr_t code) {
    const uint64_t me = watch.block;
    const uint32_t now = stamp_of(watch), bytes = static_cast<uint32_t>(mask);
    uint64_t c = __atomic_load_n(&cell->blocks, __ATOMIC_RELAXED), t = __atomic_load_n(&cell->threads, __ATOMIC_RELAXED);
    if ((c ^ watch.launch) >> 48 != 0) {
        c = watch.launch | (c & 15);
        t = 0;
    }
    uint32_t wrote = static_cast<uint32_t>(t >> 32), read = static_cast<uint32_t>(t);
    const bool signals = watch.fenced && is_signal(watch, access, address);
    check_writer(watch, c, wrote, mask, access, signals, address, code);
    if (access == Access::kRead) {
        read = after_read(watch, (c >> 16 & 0xffff) == me ? read : 0, now, bytes);
        c = with_reader(c, me, mask);
    } else {
        const bool atomic = access != Access::kWrite;
        if (!atomic) check_readers(watch, c, read, mask, address, code);
        wrote = after_write(watch, (c >> 32 & 0xffff) == me ? wrote : 0, now, bytes, atomic ? kMarked : 0);
        c = with_writer(c, me, mask, access == Access::kAtomic, signals);
    }
    __atomic_store_n(&cell->threads, uint64_t{wrote} << 32 | read, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->blocks, c, __ATOMIC_RELAXED);
}

// Checks a volatile read of the word at `cell`, which may be part of a waiting loop. Only a plain store without a
// preceding fence conflicts, because a loop cannot wait for such a store.
void polled(Watch& watch, const GlobalCell& cell, uint64_t mask, uintptr_t address, uintptr_t code) {
    const uint64_t c = __atomic_load_n(&cell.blocks, __ATOMIC_RELAXED), t = __atomic_load_n(&cell.threads, __ATOMIC_RELAXED);
    if ((c ^ watch.launch) >> 48 != 0 || (c & (kAtomicWriter | kSignal)) != 0) return;
    check_writer(watch, c, static_cast<uint32_t>(t >> 32), mask, Access::kRead, false, address, code);
}

// Checks a load through the read-only cache (__ldg), which stores of the running kernel do not update.
void read_only_load(Watch& watch, uintptr_t address, size_t bytes, uintptr_t code) {
    Region* region = find_region(address);
    if (region == nullptr || address - region->first >= region->bytes) return;
    const GlobalCell* cells = cells_of(*region);
    if (cells == nullptr) return;
    const uintptr_t end = std::min(address + bytes, region->first + region->bytes);
    for (uintptr_t at = address; at < end; at += 4 - (at & 3)) {
        const uint64_t c = __atomic_load_n(&cells[(at >> 2) - (region->first >> 2)].blocks, __ATOMIC_RELAXED);
        const uint64_t mask = byte_mask(at, end - at);
        if ((c ^ watch.launch) >> 48 != 0 || (c >> 32 & 0xffff) == 0 || (c >> 4 & mask) == 0) continue;
        return report(&finding::kReadOnlyLoad, Severity::kError, at_code(code), watch.worker, [&] {
            return format("Reads %zu bytes by __ldg (ld.global.nc) that this launch has written: the read-only cache may "
                          "still hold the old contents. Use a plain load.",
                          bytes);
        });
    }
}

void settle_global_write(Watch& watch) {
    const bool same = std::memcmp(watch.write.address, watch.write.before, watch.write.bytes) == 0;
    report_conflict(watch, same ? Severity::kWarning : Severity::kError, watch.write.conflict);
}

// Marks bytes that the host writes (cudaMemset, cudaMemcpy) as written.
void note_host_write(const void* first, size_t bytes) {
    if (!checks_wanted()) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    Region* region = find_live_region(address);
    if (region == nullptr || bytes > region->bytes - (address - region->first)) return;
    GlobalCell* cells = cells_of(*region);
    if (cells == nullptr) return;
    const size_t from = (address >> 2) - (region->first >> 2);
    for (size_t k = 0; k < (bytes + 3) / 4; k++) cells[from + k].blocks |= 15;
}

}  // namespace kw

using namespace kw;

// Returns how many elements still hold the fill of fresh memory and were never written, neither by a checked kernel nor
// by the host's cudaMemset or cudaMemcpy. *index becomes the index of the first such element.
extern "C" size_t kw_unwritten(const void* first, size_t count, size_t element, size_t* index) {
    const char* bytes = static_cast<const char*>(first);
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    Region* region = find_live_region(address);
    if (region == nullptr || count * element > region->bytes - (address - region->first)) return 0;
    const GlobalCell* cells = region->cells;
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        const char* at = bytes + k * element;
        const uintptr_t place = address + k * element;
        const uint64_t written = cells == nullptr ? 0 : cells[(place >> 2) - (region->first >> 2)].blocks & 15;
        if ((written & byte_mask(place, element)) != 0) continue;
        if (!is_fresh(at, element)) continue;
        if (found++ == 0) *index = k;
    }
    return found;
}
