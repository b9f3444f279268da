// mbarriers and bulk copies of a block, shared by mbarrier.cpp, bulk_copy.cpp and tensor_map.cpp.
#pragma once

#include "watch.h"

#include <memory>

namespace kw {

struct MBarrier {
    size_t offset;  // within the block's shared memory
    uint32_t expected, pending;
    int64_t bytes;   // bytes that the current phase still waits for
    uint32_t phase;  // number of completed phases
    int agent;       // identity under which the writes of its copies are tracked
    Clocks coming, done;  // knowledge of the arrivals in the current phase, and in all earlier ones
    Knowledge coming_of, done_of;  // the same about other blocks
};

struct Piece {
    char* to;
    const char* from;  // null: zeros
    size_t bytes;
};

enum class Way { kToShared, kToGlobal };

// A bulk copy that was issued.
struct Bulk {
    Way way;
    std::vector<Piece> pieces;
    std::vector<char> content;  // source of a copy that does not come from memory
    size_t bytes;
    size_t shared_first;  // offset within the shared memory of the block that keeps it
    MBarrier* barrier;  // completed by this copy, or null
    uint32_t phase;     // of the barrier on completion
    int thread;         // the issuer
    uint32_t group;     // bulk group of that thread
    uintptr_t code;
    void (*reduce)(char* to, const char* from, size_t bytes);  // null: a plain copy
    bool arrived, read;  // completed; source read
    unsigned char filler;  // for elements outside a tensor
    uint8_t layout;        // swizzle of the tensor map plus 1; 0: unknown
};

// Asynchronous state of the block that an OS thread runs.
struct Async {
    uint16_t slots[kSharedArena / 8];  // by offset / 8: index in `barriers` plus 1
    std::vector<std::unique_ptr<MBarrier>> barriers;
    std::vector<std::unique_ptr<Bulk>> bulk;  // in the order of issue
    uint32_t group[kMaxThreads];
    uint32_t period = 1;  // counts events that can end a wait; 0 is that of threads that never waited
    uint32_t waited_in[kMaxThreads];
    int waiting;  // threads that have waited in vain in this period
    int rounds;
    long turns;  // turns given to other blocks meanwhile
};

// mbarrier.cpp
MBarrier* barrier_at(Worker& worker, const void* address);
void settle(Worker& worker, MBarrier& barrier);

// bulk_copy.cpp
MBarrier* told_of(Worker& worker, Worker& keeper, const void* barrier, uintptr_t code);
bool deliver_one(Worker& worker);
void arrived_seen(Worker& worker, MBarrier& barrier);
void forget_bulk(Worker& worker);
void ask(Worker& worker, std::unique_ptr<Bulk> bulk);

}  // namespace kw
