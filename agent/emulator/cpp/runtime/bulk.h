// mbarriers and bulk copies of a block, shared by mbarrier.cpp, bulk_copy.cpp and tensor_map.cpp.
#pragma once

#include "watch.h"

#include <memory>

namespace kw {

// State of one mbarrier.
struct MBarrier {
    size_t offset;  // offset in the block's shared memory, in bytes
    uint32_t expected, pending;  // arrivals per phase, and arrivals that the current phase still waits for
    int64_t bytes;   // bytes that the current phase still waits for
    uint32_t phase;  // number of completed phases
    int agent;       // number of the agent under which writes of copies that complete on this mbarrier are tracked
    Clocks coming, done;  // knowledge of threads that arrived in the current phase, and in earlier phases
    Knowledge coming_of, done_of;  // knowledge of these threads about other blocks of the cluster
};

// Contiguous part of a bulk copy.
struct Piece {
    char* to;
    const char* from;  // null: fill with zeros
    size_t bytes;
};

enum class Way { kToShared, kToGlobal };

// Bulk copy that was issued and is not yet known to have completed.
struct Bulk {
    Way way;
    std::vector<Piece> pieces;
    std::vector<char> content;  // source of a copy that does not come from memory
    size_t bytes;
    size_t shared_first;  // offset within the shared memory that the copy fills or reads
    MBarrier* barrier;  // mbarrier on which the copy completes, or null
    uint32_t phase;     // phase of that mbarrier when the copy completed
    int thread;         // thread that issued the copy
    uint32_t group;     // bulk group of the issuing thread
    uintptr_t code;     // address of the code that issued the copy
    void (*reduce)(char* to, const char* from, size_t bytes);  // null: a plain copy
    bool arrived, read;  // the copy has completed; its source has been read
    unsigned char filler;  // byte that fills elements outside a tensor
    uint8_t layout;        // swizzle of the tensor map plus 1; 0: unknown
};

// State of mbarriers and bulk copies of the block that an OS thread runs.
struct Async {
    uint16_t slots[kSharedArena / 8];  // index plus 1 in `barriers` of the mbarrier at each offset / 8; 0: none
    std::vector<std::unique_ptr<MBarrier>> barriers;
    std::vector<std::unique_ptr<Bulk>> bulk;  // copies in the order of issue
    uint32_t group[kMaxThreads];  // number of each thread's bulk group that is not committed yet
    uint32_t period = 1;  // number of the current period; an event that can end a wait begins a new one
    uint32_t waited_in[kMaxThreads];  // last period in which each thread waited in vain; 0: none
    int waiting;  // number of threads that have waited in vain in this period
    int rounds;   // rounds in which all threads waited and no copy completed
    long turns;   // turns given to other blocks since the last progress
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
