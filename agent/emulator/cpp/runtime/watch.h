// Data of checked execution: the access history of each word of memory while kernels run.
//
// Device code is compiled so that every access first calls the runtime (access.cpp). An access to global memory must
// lie within one region, an access to shared memory within one variable. A cell for every 4 bytes keeps which threads
// read and wrote them since the last synchronisation.
#pragma once

#include "state.h"

namespace kw {

// Kind of a memory access. kBlockAtomic: atomic only with respect to threads of the block.
enum class Access : uint8_t { kRead, kWrite, kAtomic, kBlockAtomic };

// Access history of four bytes of global memory. Fields of `blocks` from the upper end:
//   16 bits  number of the launch
//   16       block that wrote last; 0: none
//   16       block that read; 0: none, 65535: several
//    2       unused
//    1       the writer had just run a fence
//    1       the writer was atomic
//    4       bytes read
//    4       bytes written by the last writer
//    4       bytes ever written
// `threads`: warp and clock of the last writer (upper half) and of the reader (lower half).
struct GlobalCell {
    uint64_t blocks, threads;
};

// Memory that kernels may use: an allocation of the arena, or memory that torch allocated elsewhere.
struct Region {
    uintptr_t first;
    size_t bytes;
    std::string label;             // name in messages, such as "float32 tensor [2, 3]"
    std::atomic<GlobalCell*> cells;  // null until a checked kernel first uses the region
    std::atomic<uint64_t*> writers;  // laid out as in writers.cpp; null until requested
    bool published;                // a running kernel may use this object
};

// Cache of the region of the last access from one place in the code, because most accesses go to the same region again.
struct Site {
    uintptr_t first;
    size_t bytes;
    GlobalCell* cells;  // null where races are not tracked: stacks, constants, arguments
};

// Access history of four bytes of shared memory. Masks have one bit per byte; code is relative to the kernel's entry.
struct SharedCell {
    uint32_t block;  // serial number of the block that the cell describes
    uint32_t write_epoch, read_epoch;
    uint32_t write_clock, read_clock;
    uint32_t write_code, read_code;
    uint32_t read_lanes;      // mask of the lanes of the reader's warp that read; with several_warps a mask of warps
    uint16_t writer, reader;  // last writer, and one of the readers; a thread, or an agent from kMaxThreads on
    uint8_t written;          // mask of the bytes ever written in this block
    uint8_t write_mask : 4, read_mask : 4;
    bool write_atomic : 1, write_volatile : 1, read_volatile : 1, several_warps : 1;
    bool by_group : 1;   // a matrix product of a warpgroup is among the readers
    uint8_t layout : 3;  // swizzle of the tensor map that wrote the word, plus 1; 0: unknown
};

// Access by another block, or by another warp of the block, that conflicts with the current one.
struct Conflict {
    const char* did;
    const char* other_did;
    uint64_t block;  // number of the other block, as in a cell; equal to the current block for another warp
    int warp;        // number of the other warp within its block; -1: several
    uintptr_t code;
};

// Clocks of a block's fences of one scope (block or device), by warp.
struct Fences {
    bool any = false;
    uint32_t fence[kMaxWarps] = {};    // last fence of the warp
    uint32_t base[kMaxWarps] = {};     // block's last barrier before that fence
    uint32_t settled[kMaxWarps] = {};  // fences that the block's last barrier has ordered before all threads
    uint32_t settled_base = 0;
};

// Knowledge that a warp acquired through flags since the block's last barrier: clocks by block and warp.
struct Acquisition {
    int thread;
    uint32_t clock;  // clock at which `thread`, the first of its warp, acquired the knowledge
    std::vector<uint32_t> clocks;
};

// Last atomic read of a thread. It is announced before the read itself, which may see later stores.
struct Poll {
    uintptr_t address = 0;  // 0: none since the block's last barrier
    bool in_block = false;
};

// Store by a second thread that conflicts with an earlier store. It is harmless if the value stays the same. The
// compiler announces a store before it happens, so the value is compared at the next announced access.
struct PendingWrite {
    const char* address;
    size_t bytes;  // 0: no store is pending
    unsigned char before[16];  // bytes in memory before the store
    uintptr_t code, other_code;
    int thread, other;
    bool in_warp, both_volatile;
    bool global;
    Conflict conflict;  // set if `global`
};

// Array index out of bounds, reported before the access itself.
struct PendingIndex {
    uintptr_t code;  // 0: no index is pending
    int thread;
    size_t elements;
    std::string text;
};

constexpr size_t kSites = 512;

// Vector clock: for each thread and agent (order.cpp), the clock up to which the holder is ordered after it.
struct Clocks {
    std::vector<uint32_t> at;
};

// Accesses by another block of the cluster that are known to be ordered before: those before its barrier number
// `epoch`, and those of each thread up to its clock in `clocks`.
struct Foreign {
    uint32_t epoch = 0;
    Clocks clocks;
};
struct Knowledge {
    std::vector<Foreign> of;  // knowledge by rank in the cluster; nothing is known of further blocks
};
constexpr int kGroupWarps = 4;  // warps in a warpgroup
constexpr int kMaxAgents = 64;  // asynchronous agents of a block; as writers they have numbers from kMaxThreads on
constexpr uintptr_t kNothing = ~uintptr_t{0};

// Access history of the block that one OS thread runs.
struct Watch {
    Worker* worker;
    uintptr_t shared;
    Site sites[kSites];
    uint64_t launch;  // serial number of the launch, in the upper 16 bits
    uint64_t block;   // name of the block in cells: 1 to 65534, from the block's number
    bool acquired;    // a thread of the block has read memory to which other blocks may have published
    bool fenced;      // a thread of the block has run a fence
    bool polling;     // the access under examination is a volatile or atomic read
    uint32_t barrier_clock, barrier_mark;  // clock of the last barrier, plain and as a half of GlobalCell::threads
    Fences near, far;  // fences of block scope, and of device scope
    std::vector<uint32_t> known_to_all;  // clocks by block and warp that every thread of the block knows
    std::vector<Acquisition> acquisitions;
    Poll polls[kMaxThreads];
    std::vector<int> pollers;  // threads with a poll that is set
    uint64_t last_version;  // version of the Published that a thread of the block acquired last
    int last_learner;       // thread that acquired last_version
    uint8_t signals[kMaxThreads];  // plain stores that may still be the signal after a fence
    uint8_t in_block[kMaxThreads];  // 1 while the thread is in an atomic operation of block scope
    uintptr_t entry;  // address of the kernel
    uint32_t block_serial, epoch, clock;
    uint32_t released[kMaxThreads], observed[kMaxThreads];  // clocks of fences and of atomics
    uint32_t warp_clock[kMaxWarps];                         // clock of the last operation of all lanes of a warp
    uint32_t met[kMaxWarps][kWarpSize][kWarpSize];          // clock of the last operation that two lanes shared
    bool partly_met[kMaxWarps];  // a warp has had an operation of only some lanes
    bool exact;  // order.cpp keeps a vector clock per thread
    int columns;  // entries of a vector clock: threads and agents
    std::vector<uint32_t> known;  // vector clocks of all threads, one after the other
    uint32_t proxy_fenced[kMaxThreads];  // clocks of the last fence.proxy.async
    uint32_t unshared[kMaxWarps];  // mask of the lanes that know more than other lanes of their warp
    SharedCell* cells;
    PendingWrite write;
    PendingIndex index;
    uintptr_t misplaced_code;  // code of the last access that lies in no region
    Kind misplaced_kind;       // kind of its finding; null: the hardware faults
    long work_left;            // rest of the block's budget in a sampled launch, in accesses
    std::vector<uint16_t> stores;  // number of stores per thread so far; used if writers are noted
    uintptr_t reported;  // address of the last access with a finding, or kNothing; a fault there is not reported again
};

extern KW_TLS Watch* watching;  // null outside checked kernels

// watch.cpp
bool checks_wanted();
void require_switches();
void begin_watch(Worker& worker);
void end_watch();
void release_watch(Worker& worker);
void begin_watched_block(Watch& watch);
void end_watched_block(Watch& watch);
void note_barrier(Watch& watch);
void note_warp_operation(Watch& watch, int warp, uint32_t lanes);
void note_fence(Watch& watch, bool for_device);
bool closely_ordered(const Watch& watch, int thread, int other, uint32_t clock);
void begin_checked_launch();

// happens_before.cpp
void forget_published();
void begin_block_order(Watch& watch);
void settle_block_order(Watch& watch);
void fence_order(Watch& watch, bool for_device);
void publish_at(Watch& watch, uintptr_t address, bool in_block);
void learn_from(Watch& watch, uintptr_t address, bool in_block);
void settle_polls(Watch& watch);
void arrive_for_others(Watch& watch, std::vector<uint32_t>& clocks);
void learn_for_all(Watch& watch, const std::vector<uint32_t>& clocks);
bool has_learned(const Watch& watch, int thread, uint64_t block, int warp, uint32_t clock);
bool happened_before(const Watch& watch, uint64_t block, int warp, uint32_t clock);
bool has_learned_anything(const Watch& watch);

// order.cpp
int column_of(const Watch& watch, int who);
void contribute(Watch& watch, int thread, Clocks& to);
void contribute_agent(Watch& watch, int agent, Clocks& to);
void learn(Watch& watch, int thread, const Clocks& from);
void share_knowledge(Watch& watch, int warp, uint32_t lanes);

// regions.cpp
struct Misplaced {
    Kind kind;  // null: no finding, because the access faults
    std::string text;
};
void add_region(const void* first, size_t bytes, const char* label);
void remove_region(const void* first);
void forget_freed(uintptr_t first, size_t bytes);
void publish_regions();
Region* find_region(uintptr_t address);
Region* find_live_region(uintptr_t address);
GlobalCell* cells_of(Region& region);
uint64_t* writers_of(Region& region);
void clear_cells();
Misplaced explain(uintptr_t address, size_t bytes, Access access);
bool in_module(uintptr_t address, const void* entry, Site& site);

// writers.cpp
void note_writer(Watch& watch, uintptr_t address, size_t bytes, bool atomic);

// access.cpp
void check_copy(void* to, const void* from, size_t bytes, uintptr_t code);
void check_source(const void* from, size_t bytes, uintptr_t code);
void check_update(void* to, size_t bytes, uintptr_t code);

// async_copy.cpp
bool check_not_pending(Worker& worker, uintptr_t address, size_t bytes, uintptr_t code);

// cluster.cpp
bool peer_access(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code, bool asynchronous = false);

// cluster_order.cpp
void fence_cluster(Worker& worker);
bool check_used_by_peers(Worker& worker, size_t offset, size_t bytes, Access access, uintptr_t code);

// bulk_copy.cpp
bool check_in_flight(Worker& worker, const void* address, size_t bytes, Access access, uintptr_t code);

// warpgroup.cpp
bool check_products(Worker& worker, size_t first, size_t bytes, uintptr_t code);

// sampling.cpp
void begin_sampled_block(Watch& watch);
void sampled_access(Watch& watch, bool inside, uintptr_t address, size_t bytes, Access access, uintptr_t code);

// shadow_global.cpp
void settle_global_write(Watch& watch);
void global_access(Watch& watch, GlobalCell* cell, uint64_t mask, Access access, uintptr_t address, uintptr_t code);
void polled(Watch& watch, const GlobalCell& cell, uint64_t mask, uintptr_t address, uintptr_t code);
void read_only_load(Watch& watch, uintptr_t address, size_t bytes, uintptr_t code);
void note_host_write(const void* first, size_t bytes);

// shadow_shared.cpp
bool begin_pending(Watch& watch, const char* address, size_t bytes, uintptr_t code);
void settle_write(Watch& watch);
void async_access(Watch& watch, size_t offset, size_t bytes, Access access, uintptr_t code);
struct AsyncWriter {
    int agent;
    uint8_t layout;
    uintptr_t code;
};
void note_async_write(Watch& watch, size_t offset, size_t bytes, const AsyncWriter& writer);
void note_group_read(Watch& watch, size_t offset, size_t bytes, uintptr_t code);
void check_layout(Watch& watch, size_t offset, int swizzle, uintptr_t code);
void note_initialised(Watch& watch, size_t offset, size_t bytes);
void shared_access(Watch& watch, size_t offset, size_t bytes, Access access, bool is_volatile, uintptr_t code);

// shared_bounds.cpp
struct SharedVariable {
    size_t offset;
    size_t bytes;
    std::string name;
    int line;  // 0: dynamic shared memory
    std::string text() const;
};
extern uint8_t usable_shared[];  // mask of the bytes of each word that belong to a variable
SharedVariable nearest_shared(size_t offset);
void report_outside_shared(Watch& watch, size_t offset, size_t bytes, Access access, uintptr_t code);
void report_unwritten_shared(Watch& watch, size_t offset, uintptr_t code);
void begin_shared_bounds();
void add_shared_bounds(size_t offset, size_t bytes, const char* name, int line);

// undefined.cpp
void settle_index(Watch& watch, size_t variable_bytes, size_t bytes);

// Returns true if all accesses of the lanes of a warp up to `clock` happened before the current operation of `thread`,
// without regard to barriers. The first line is a fast path for blocks without fences and partial warp operations.
inline bool lanes_ordered(const Watch& watch, int thread, int warp, uint32_t lanes, uint32_t clock) {
    if (!watch.fenced && !watch.partly_met[warp]) return thread / kWarpSize == warp && clock < watch.warp_clock[warp];
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int other = warp * kWarpSize + __builtin_ctz(rest);
        if (other != thread && !closely_ordered(watch, thread, other, clock)) return false;
    }
    return true;
}

inline bool thread_ordered(const Watch& watch, int thread, int other, uint32_t clock) {
    return lanes_ordered(watch, thread, other / kWarpSize, 1u << other % kWarpSize, clock);
}

constexpr uint64_t kAtomicWriter = 1 << 12;
constexpr uint64_t kSignal = 1 << 13;  // the writer made a plain store right after a fence, for which others may wait
constexpr uint64_t kSeveral = 0xffff;
constexpr uint64_t kBlockNames = 0xfffe;  // blocks this far apart share a name, so a conflict between them is missed

// Fields of a half of GlobalCell::threads from the upper end: clock, mark (several warps read, or the writer was
// atomic), warp, mask of bytes.
constexpr uint32_t kClockAt = 10, kWarpAt = 4;
constexpr uint32_t kMostClocks = (1u << (32 - kClockAt)) - 1;
constexpr uint32_t kMarked = 1u << 9, kWarpBits = 31u << kWarpAt;
constexpr uint8_t kSignalsAfterFence = 4;

inline uint64_t byte_mask(uintptr_t address, size_t bytes) {
    const unsigned shift = address & 3;
    const uint64_t full = bytes >= 4 ? 15 : (1u << bytes) - 1;
    return full << shift & 15;
}

// Returns the current thread's warp and clock, formatted as half of GlobalCell::threads.
inline uint32_t stamp_of(const Watch& watch) {
    const uint32_t clock = watch.clock < kMostClocks ? watch.clock : kMostClocks;
    return clock << kClockAt | static_cast<uint32_t>(watch.worker->current / kWarpSize) << kWarpAt;
}

// Returns true if the access noted in `half` was made by another warp after the block's last barrier.
inline bool is_elsewhere(const Watch& watch, uint32_t half, uint32_t now) {
    return half >= watch.barrier_mark && ((half ^ now) & kWarpBits) != 0;
}

inline uint32_t after_read(const Watch& watch, uint32_t read, uint32_t now, uint32_t mask) {
    if (read < watch.barrier_mark) return now | mask;
    if (((read ^ now) & kWarpBits) == 0 && (read & kMarked) == 0) return now | mask | (read & 15);
    const uint32_t both = read & mask;
    return both != 0 ? now | kMarked | both : now | mask;
}

inline uint32_t after_write(const Watch& watch, uint32_t wrote, uint32_t now, uint32_t mask, uint32_t mark) {
    const bool again = wrote >= watch.barrier_mark && ((wrote ^ now) & (kWarpBits | kMarked)) == mark;
    return now | mark | mask | (again ? wrote & 15 : 0);
}

// Notes a plain access of a word that no other block has accessed in this launch, or that several blocks only read.
// Returns false if global_access must examine it.
template <Access kAccess>
inline bool note_own(const Watch& watch, GlobalCell* cell, uint64_t mask) {
    constexpr uint64_t kLaunch = uint64_t{0xffff} << 48;
    const uint64_t reader = watch.block << 16, writer = watch.block << 32;
    const uint64_t c = __atomic_load_n(&cell->blocks, __ATOMIC_RELAXED);
    const bool first = ((c ^ watch.launch) & kLaunch) != 0;
    const uint64_t others = first ? 0 : c & (kSeveral << 32 | kAtomicWriter);
    if (others != 0 && others != writer) return false;
    const uint64_t readers = first ? 0 : c & kSeveral << 16;
    if (readers != 0 && readers != reader) {
        return kAccess == Access::kRead && others == 0 && readers == kSeveral << 16 && (c >> 8 & mask) == mask;
    }
    if (kAccess == Access::kWrite && watch.fenced) return false;
    const uint64_t t = __atomic_load_n(&cell->threads, __ATOMIC_RELAXED);
    const uint32_t wrote = others == 0 ? 0 : static_cast<uint32_t>(t >> 32);
    const uint32_t read = readers == 0 ? 0 : static_cast<uint32_t>(t);
    const uint32_t now = stamp_of(watch), bytes = static_cast<uint32_t>(mask);
    if ((wrote & bytes) != 0 && is_elsewhere(watch, wrote, now)) return false;
    uint64_t then;
    if (kAccess == Access::kRead) {
        then = uint64_t{wrote} << 32 | after_read(watch, read, now, bytes);
    } else {
        const bool known = (read & bytes) != 0 && read >= watch.barrier_mark;
        if (known && ((read & kMarked) != 0 || is_elsewhere(watch, read, now))) return false;
        then = uint64_t{after_write(watch, wrote, now, bytes, 0)} << 32 | read;
    }
    if (then != t) __atomic_store_n(&cell->threads, then, __ATOMIC_RELAXED);
    const uint64_t kept = first ? watch.launch | (c & 15) : c;
    const uint64_t noted = kept | (kAccess == Access::kRead ? reader | mask << 8 : writer | mask << 4 | mask);
    if (noted != c) __atomic_store_n(&cell->blocks, noted, __ATOMIC_RELAXED);
    return true;
}

}  // namespace kw
