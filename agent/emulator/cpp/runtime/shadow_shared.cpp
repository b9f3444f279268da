// Checks of shared memory: reads of bytes that were never written, and races among the threads of the block.
#include "watch.h"

#include <algorithm>
#include <cstring>

namespace kw {

namespace {

struct Race {
    const char* did;
    const char* other_did;
    int other;  // number of the other thread; -1: several threads
    size_t offset;
    uintptr_t code, other_code;
    bool in_warp;
    bool both_volatile;
};

// Reports a conflict with a bulk copy whose completion another thread has observed, but not the current thread.
void report_unseen_copy(const Watch& watch, const Race& race) {
    report(&finding::kAsyncCopyNotWaited, Severity::kError, at_code(race.code, race.other_code), watch.worker, [&] {
        const SharedVariable v = nearest_shared(race.offset);
        return format("Thread %d %s byte %zu of %s, which the bulk copy at {other} has filled; this thread has neither "
                      "waited for its mbarrier nor met one that has.",
                      watch.worker->current, race.did, race.offset - v.offset, v.text().c_str());
    });
}

void report_race(const Watch& watch, const Race& race, bool same_value) {
    if (race.other >= kMaxThreads) return report_unseen_copy(watch, race);
    const bool legacy = race.both_volatile && race.in_warp;
    // Volatile accesses by two warps may be the store of a flag and a loop that waits for the flag.
    const bool polls = race.both_volatile && !race.in_warp;
    const Severity severity = polls || same_value ? Severity::kWarning : Severity::kError;
    report(&finding::kSharedRace, severity, at_code(race.code, race.other_code), watch.worker, [&] {
        const std::string other = race.other < 0 ? "several threads" : format("thread %d", race.other);
        const SharedVariable v = nearest_shared(race.offset);
        return format("Thread %d %s byte %zu of %s, which %s %s in {other}, with no %s in between.%s",
                      watch.worker->current, race.did, race.offset - v.offset, v.text().c_str(), other.c_str(),
                      race.other_did, race.in_warp ? "__syncwarp()" : "__syncthreads()",
                      legacy       ? " The lanes of a warp run in step only by luck; volatile does not order them."
                      : same_value ? " Both store the same value, which works on today's GPUs."
                                   : "");
    });
}

// Postpones the report of two conflicting stores until the second one has been made. They are harmless if the value
// stays the same.
void postpone(Watch& watch, const Race& race, size_t bytes) {
    PendingWrite& write = watch.write;
    if (!begin_pending(watch, reinterpret_cast<const char*>(watch.shared + race.offset), bytes, race.code)) return;
    write.global = false;
    write.other = race.other;
    write.other_code = race.other_code;
    write.in_warp = race.in_warp;
    write.both_volatile = race.both_volatile;
}

struct SharedUse {
    size_t offset;
    uint8_t mask;
    Access access;
    bool is_volatile;
    uintptr_t code;
    int thread;
    bool asynchronous = false;
};

// Returns the code address at a distance from the kernel's entry. Code of one library lies within 2 GB of the entry.
uintptr_t code_of(const Watch& watch, uint32_t distance) {
    return watch.entry + static_cast<uintptr_t>(static_cast<intptr_t>(static_cast<int32_t>(distance)));
}

bool same_warp(int a, int b) { return a / kWarpSize == b / kWarpSize; }

void check_against_writer(Watch& watch, const SharedCell& cell, const SharedUse& use, size_t bytes) {
    if (cell.write_epoch != watch.epoch || cell.writer == use.thread || (cell.write_mask & use.mask) == 0) return;
    if (use.access == Access::kAtomic && cell.write_atomic) return;
    if (thread_ordered(watch, use.thread, cell.writer, cell.write_clock)) return;
    const char* did = use.access == Access::kRead     ? "reads"
                      : use.access == Access::kAtomic ? "updates"
                                                      : "overwrites";
    const Race race{did,
                    cell.write_atomic ? "updated" : "wrote",
                    cell.writer,
                    use.offset,
                    use.code,
                    code_of(watch, cell.write_code),
                    same_warp(use.thread, cell.writer),
                    use.is_volatile && cell.write_volatile};
    if (use.access == Access::kWrite && !cell.write_atomic && cell.writer < kMaxThreads && !use.asynchronous) {
        postpone(watch, race, bytes);
    } else {
        report_race(watch, race, false);
    }
}

// Returns true if `thread` is ordered after all readers of a cell that several warps read. read_lanes is the mask of
// these warps and read_clock the time of the first read. One thread of each warp, or of each warpgroup that read
// together, has to be ordered before `thread`.
bool readers_ordered(const Watch& watch, const SharedCell& cell, int thread) {
    const int together = cell.by_group ? kGroupWarps : 1;
    for (int first = 0; first < watch.worker->warp_count; first += together) {
        if ((cell.read_lanes >> first & ((1u << together) - 1)) == 0) continue;
        const int begin = first * kWarpSize, end = std::min(begin + together * kWarpSize, watch.worker->count);
        bool known = thread >= begin && thread < end;
        for (int t = begin; t < end && !known; t++) known = thread_ordered(watch, thread, t, cell.read_clock);
        if (!known) return false;
    }
    return true;
}

// Adds a warp, or the first warp of a warpgroup, to the readers of a cell.
void add_reader(SharedCell& cell, int warp) {
    if (!cell.several_warps) cell.read_lanes = 1u << cell.reader / kWarpSize;
    cell.several_warps = true;
    cell.read_lanes |= 1u << warp;
}

void check_against_readers(const Watch& watch, const SharedCell& cell, const SharedUse& use) {
    if (cell.read_epoch != watch.epoch || (cell.read_mask & use.mask) == 0) return;
    if (cell.several_warps && watch.exact && readers_ordered(watch, cell, use.thread)) return;
    const int warp = cell.reader / kWarpSize;
    const uint32_t me = warp == use.thread / kWarpSize ? 1u << use.thread % kWarpSize : 0;
    const uint32_t others = cell.read_lanes & ~me;
    if (!cell.several_warps && others == 0) return;
    if (!cell.several_warps && lanes_ordered(watch, use.thread, warp, others, cell.read_clock)) return;
    const bool one = !cell.several_warps && (others & (others - 1)) == 0;
    const int other = one ? warp * kWarpSize + __builtin_ctz(others) : -1;
    report_race(watch,
                Race{use.access == Access::kAtomic ? "updates" : "overwrites", "read", other, use.offset, use.code, code_of(watch, cell.read_code),
                     !cell.several_warps && me != 0, use.is_volatile && cell.read_volatile},
                false);
}

void note_read(const Watch& watch, SharedCell& cell, const SharedUse& use) {
    const int warp = use.thread / kWarpSize;
    const uint32_t me = 1u << use.thread % kWarpSize;
    const bool current = cell.read_epoch == watch.epoch;
    const int known = cell.reader / kWarpSize;
    const bool ordered = cell.several_warps
                             ? watch.exact && readers_ordered(watch, cell, use.thread)
                             : lanes_ordered(watch, use.thread, known, cell.read_lanes, cell.read_clock);
    const bool joins = current && (cell.read_mask & use.mask) != 0 && !ordered;
    cell.read_volatile = use.is_volatile && (!joins || cell.read_volatile);
    if (!joins) {  // all earlier readers are ordered before the current thread
        const bool again = current && cell.reader == use.thread && cell.read_lanes == me && !cell.several_warps;
        cell.read_mask = again ? cell.read_mask | use.mask : use.mask;
        cell.reader = static_cast<uint16_t>(use.thread);
        cell.read_lanes = me;
        cell.several_warps = cell.by_group = false;
    } else {
        cell.read_mask &= use.mask;
        if (known == warp && !cell.several_warps) {
            cell.read_lanes |= me;
        } else {
            add_reader(cell, warp);
        }
    }
    if (!cell.several_warps) cell.read_clock = watch.clock;
    cell.read_epoch = watch.epoch;
    cell.read_code = static_cast<uint32_t>(use.code - watch.entry);
}

void note_write(const Watch& watch, SharedCell& cell, const SharedUse& use) {
    const bool atomic = use.access == Access::kAtomic;
    const bool again = cell.write_epoch == watch.epoch && cell.writer == use.thread && cell.write_atomic == atomic;
    cell.write_mask = again ? cell.write_mask | use.mask : use.mask;
    cell.writer = static_cast<uint16_t>(use.thread);
    cell.write_epoch = watch.epoch;
    cell.write_clock = watch.clock;
    cell.write_code = static_cast<uint32_t>(use.code - watch.entry);
    cell.write_atomic = atomic;
    cell.write_volatile = use.is_volatile;
    cell.layout = 0;
    cell.written |= use.mask;
}

// Fast paths for accesses of whole words that need no report. Return false if the access needs the full check.
bool is_quiet_read(const Watch& watch, SharedCell& cell, int thread, uintptr_t code) {
    if (cell.block != watch.block_serial || cell.written != 15) return false;
    if (cell.write_epoch == watch.epoch && cell.writer != thread) return false;
    const uint32_t me = 1u << thread % kWarpSize;
    if (cell.read_epoch != watch.epoch) {
        cell.read_epoch = watch.epoch;
        cell.read_clock = watch.clock;
        cell.read_code = static_cast<uint32_t>(code - watch.entry);
        cell.read_lanes = me;
        cell.reader = static_cast<uint16_t>(thread);
        cell.read_mask = 15;
        cell.read_volatile = cell.several_warps = cell.by_group = false;
        return true;
    }
    if (cell.read_mask != 15) return false;
    if (cell.several_warps) return !watch.exact;
    if (watch.fenced) return false;
    const int warp = thread / kWarpSize;
    if (cell.reader / kWarpSize != warp) {
        cell.several_warps = true;
        cell.read_lanes = UINT32_MAX;  // all warps, which is exact enough until the block uses an mbarrier
        return true;
    }
    if (watch.partly_met[warp] || cell.read_clock < watch.warp_clock[warp]) return false;
    cell.read_lanes |= me;
    cell.read_clock = watch.clock;
    return true;
}

bool is_quiet_write(const Watch& watch, SharedCell& cell, int thread, uintptr_t code) {
    if (cell.block != watch.block_serial) {
        cell = SharedCell{};
        cell.block = watch.block_serial;
    } else if ((cell.write_epoch == watch.epoch && cell.writer != thread) || cell.read_epoch == watch.epoch) {
        return false;
    }
    cell.write_epoch = watch.epoch;
    cell.write_clock = watch.clock;
    cell.write_code = static_cast<uint32_t>(code - watch.entry);
    cell.writer = static_cast<uint16_t>(thread);
    cell.written = cell.write_mask = 15;
    cell.write_atomic = cell.write_volatile = false;
    cell.layout = 0;
    return true;
}

}  // namespace

void shared_access(Watch& watch, size_t offset, size_t bytes, Access access, bool is_volatile, uintptr_t code) {
    if (watch.write.bytes != 0) settle_write(watch);
    if (bytes == 4 && offset % 4 == 0 && usable_shared[offset / 4] == 15 && !is_volatile && watch.index.code == 0) {
        SharedCell& cell = watch.cells[offset / 4];
        const int thread = watch.worker->current;
        if (access == Access::kRead && is_quiet_read(watch, cell, thread, code)) return;
        if (access == Access::kWrite && is_quiet_write(watch, cell, thread, code)) return;
    }
    size_t at = offset;
    for (size_t left = bytes; left > 0;) {
        const size_t part = std::min(left, 4 - (at & 3));
        const auto mask = static_cast<uint8_t>(byte_mask(at, part));
        if (at / 4 >= kSharedArena / 4 || (usable_shared[at / 4] & mask) != mask) {
            settle_index(watch, 0, 0);
            report_outside_shared(watch, offset, bytes, access, code);
            return;
        }
        SharedCell& cell = watch.cells[at / 4];
        if (cell.block != watch.block_serial) {
            cell = SharedCell{};
            cell.block = watch.block_serial;
        }
        const SharedUse use{at, mask, access, is_volatile, code, watch.worker->current};
        if (access != Access::kWrite && (cell.written & mask) != mask) report_unwritten_shared(watch, at, code);
        check_against_writer(watch, cell, use, part);
        if (access != Access::kRead) check_against_readers(watch, cell, use);
        if (access == Access::kRead) {
            note_read(watch, cell, use);
        } else {
            note_write(watch, cell, use);
        }
        at += part;
        left -= part;
    }
    if (watch.index.code != 0) settle_index(watch, nearest_shared(offset).bytes, bytes);
}

namespace {

// Returns true if a thread of the warp has run fence.proxy.async since that clock.
bool warp_fenced(const Watch& watch, int warp, uint32_t clock) {
    const int first = warp * kWarpSize;
    for (int t = first; t < std::min(first + kWarpSize, watch.worker->count); t++) {
        if (watch.proxy_fenced[t] > clock) return true;
    }
    return false;
}

// Reports a missing proxy fence between a thread's write and a bulk copy or wgmma of the same memory, which uses the
// async proxy.
void check_proxy(Watch& watch, const SharedCell& cell, const SharedUse& use) {
    if (cell.writer >= kMaxThreads || (cell.written & use.mask) == 0) return;
    if (watch.proxy_fenced[cell.writer] > cell.write_clock) return;
    if (warp_fenced(watch, use.thread / kWarpSize, cell.write_clock)) return;
    report(&finding::kMissingProxyFence, Severity::kError, at_code(use.code, code_of(watch, cell.write_code)),
           watch.worker, [&] {
               const SharedVariable v = nearest_shared(use.offset);
               return format("Reads byte %zu of %s asynchronously, which thread %d wrote at {other}: without "
                             "fence.proxy.async after that, and before the barrier, the old contents may be read.",
                             use.offset - v.offset, v.text().c_str(), cell.writer);
           });
}

// Warns of a missing proxy fence between a thread's reads and a bulk copy that overwrites the memory. An mbarrier
// arrival does not delay the copy until earlier ordinary reads are done, although they nearly always are. Reads before
// the block's last barrier are not reported.
void check_proxy_of_readers(const Watch& watch, const SharedCell& cell, const SharedUse& use) {
    if (cell.read_epoch != watch.epoch || (cell.read_mask & use.mask) == 0 || cell.by_group) return;
    const int last = cell.several_warps ? watch.worker->warp_count - 1 : cell.reader / kWarpSize;
    for (int warp = cell.several_warps ? 0 : last; warp <= last; warp++) {
        const bool reads = !cell.several_warps || (cell.read_lanes >> warp & 1) != 0;
        if (!reads || warp_fenced(watch, warp, cell.read_clock)) continue;
        return report(&finding::kMissingProxyFence, Severity::kWarning,
                      at_code(code_of(watch, cell.read_code), use.code), watch.worker, [&] {
                          const SharedVariable v = nearest_shared(use.offset);
                          return format("Warp %d reads byte %zu of %s, which a bulk copy at {other} overwrites next: "
                                        "without fence.proxy.async between the read and the barrier, one of millions "
                                        "of such reads finds the new contents.",
                                        warp, use.offset - v.offset, v.text().c_str());
                      });
    }
}

}  // namespace

// Checks the reads or writes of a bulk copy or wgmma as if the issuing thread made them now.
void async_access(Watch& watch, size_t offset, size_t bytes, Access access, uintptr_t code) {
    settle_write(watch);
    const size_t end = offset + bytes;
    for (size_t at = offset; at < end; at += 4 - (at & 3)) {
        const auto mask = static_cast<uint8_t>(byte_mask(at, std::min<size_t>(4 - (at & 3), end - at)));
        if (at / 4 >= kSharedArena / 4 || (usable_shared[at / 4] & mask) != mask) {
            return report_outside_shared(watch, at, end - at, access, code);
        }
        SharedCell& cell = watch.cells[at / 4];
        if (cell.block != watch.block_serial) {
            cell = SharedCell{};
            cell.block = watch.block_serial;
        }
        const SharedUse use{at, mask, access, false, code, watch.worker->current, true};
        check_against_writer(watch, cell, use, 4);
        if (access == Access::kWrite) {
            check_against_readers(watch, cell, use);
            check_proxy_of_readers(watch, cell, use);
            continue;
        }
        if ((cell.written & mask) != mask) report_unwritten_shared(watch, at, code);
        check_proxy(watch, cell, use);
    }
}

void note_async_write(Watch& watch, size_t offset, size_t bytes, const AsyncWriter& writer) {
    for (size_t at = offset; at < offset + bytes; at += 4) {
        if (at / 4 >= kSharedArena / 4) return;
        SharedCell& cell = watch.cells[at / 4];
        cell = SharedCell{};
        cell.block = watch.block_serial;
        cell.write_epoch = watch.epoch;
        cell.write_clock = watch.clock;
        cell.write_code = static_cast<uint32_t>(writer.code - watch.entry);
        cell.writer = static_cast<uint16_t>(writer.agent);
        cell.layout = writer.layout & 7;
        cell.written = cell.write_mask = 15;
    }
}

// Notes the reads of a matrix product that the current thread has waited for, as reads of its whole warpgroup.
void note_group_read(Watch& watch, size_t offset, size_t bytes, uintptr_t code) {
    settle_write(watch);
    const int thread = watch.worker->current;
    for (size_t at = offset; at < offset + bytes; at += 4) {
        SharedCell& cell = watch.cells[at / 4];
        if (at / 4 >= kSharedArena / 4 || cell.block != watch.block_serial) return;
        const SharedUse use{at, 15, Access::kRead, false, code, thread, true};
        note_read(watch, cell, use);
        add_reader(cell, thread / kWarpSize);
        cell.by_group = true;
    }
}

// Compares a descriptor's swizzle, in its own numbering, with that of the tensor map that wrote the memory.
void check_layout(Watch& watch, size_t offset, int swizzle, uintptr_t code) {
    static constexpr const char* kNames[] = {"none", "32 bytes", "64 bytes", "128 bytes"};
    if (offset / 4 >= kSharedArena / 4) return;
    const SharedCell& cell = watch.cells[offset / 4];
    const int read_by = swizzle == 0 ? 0 : 4 - swizzle;
    if (cell.block != watch.block_serial || cell.layout == 0 || cell.layout == read_by + 1) return;
    report(&finding::kMatrixLayout, Severity::kWarning, at_code(code, code_of(watch, cell.write_code)), watch.worker, [&] {
        return format("The descriptor of this product says swizzle: %s; the tensor map by which {other} wrote there says "
                      "%s. The elements change places.",
                      kNames[read_by], kNames[cell.layout - 1]);
    });
}

// Marks bytes as written, which an exchange or an atomic store is about to write.
void note_initialised(Watch& watch, size_t offset, size_t bytes) {
    if (offset >= kSharedArena || bytes > 8) return;
    for (size_t at = offset; at < offset + bytes; at++) {
        SharedCell& cell = watch.cells[at / 4];
        if (cell.block != watch.block_serial) {
            cell = SharedCell{};
            cell.block = watch.block_serial;
        }
        cell.written |= static_cast<uint8_t>(1 << (at & 3));
    }
}

// Saves up to 4 bytes of memory before a store overwrites them. Returns false if they continue the pending store, whose
// earlier words are already saved.
bool begin_pending(Watch& watch, const char* address, size_t bytes, uintptr_t code) {
    PendingWrite& write = watch.write;
    const int thread = watch.worker->current;
    const bool continues = write.bytes != 0 && write.code == code && write.thread == thread &&
                           address == write.address + write.bytes && write.bytes + bytes <= sizeof write.before;
    if (!continues) {
        settle_write(watch);
        write.address = address;
        write.code = code;
        write.thread = thread;
    }
    std::memcpy(write.before + write.bytes, address, bytes);
    write.bytes += bytes;
    return !continues;
}

void settle_write(Watch& watch) {
    PendingWrite& write = watch.write;
    if (write.bytes == 0) return;
    const int now = watch.worker->current;
    watch.worker->current = write.thread;  // the message is about the thread that stored
    if (write.global) {
        settle_global_write(watch);
    } else {
        const bool same = std::memcmp(write.address, write.before, write.bytes) == 0;
        const size_t offset = reinterpret_cast<uintptr_t>(write.address) - watch.shared;
        const Race race{"overwrites", "wrote",       write.other,         offset, write.code, write.other_code,
                        write.in_warp, write.both_volatile};
        report_race(watch, race, same);
    }
    watch.worker->current = now;
    write.bytes = 0;
}

}  // namespace kw
