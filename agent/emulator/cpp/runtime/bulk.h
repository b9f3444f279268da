// What mbarriers and bulk copies share: the asynchronous side of a block.
#pragma once

#include "watch.h"

#include <memory>

namespace kw {

struct MBarrier {
    size_t offset;  // into the block's shared memory
    uint32_t expected, pending;
    int64_t bytes;   // of copies that the present phase still waits for
    uint32_t phase;  // number of those that are over
    int agent;       // under which name what its copies wrote is known
    Clocks coming, done;  // known of those that arrived in the present phase, and in all before
    Knowledge coming_of, done_of;  // likewise, of other blocks
};

struct Piece {
    char* to;
    const char* from;  // null: zeros
    size_t bytes;
};

enum class Way { kToShared, kToGlobal };

// One bulk copy that has been asked for.
struct Bulk {
    Way way;
    std::vector<Piece> pieces;
    std::vector<char> content;  // of what is no copy of memory
    size_t bytes;
    size_t shared_first;  // where in the shared memory of the block that keeps it
    MBarrier* barrier;  // that it tells of its arrival, or null
    uint32_t phase;     // of the barrier when it arrived
    int thread;         // that asked for it
    uint32_t group;     // of that thread's bulk groups
    uintptr_t code;
    void (*reduce)(char* to, const char* from, size_t bytes);  // null: a plain copy
    bool arrived, read;  // the whole of it, its source
    unsigned char filler;  // of what lies outside a tensor
    uint8_t layout;        // the swizzle of the tensor map, from 1; 0: none is known
};

// Of the block that an OS thread runs.
struct Async {
    uint16_t slots[kSharedArena / 8];  // by place: which of `barriers`, from 1
    std::vector<std::unique_ptr<MBarrier>> barriers;
    std::vector<std::unique_ptr<Bulk>> bulk;  // in the order they were asked for
    uint32_t group[kMaxThreads];
    uint32_t period = 1;  // between two things that help somebody who waits; not that of who never waited
    uint32_t waited_in[kMaxThreads];
    int waiting;  // threads that have waited in vain in the period
    int rounds;
    long turns;  // of other blocks, meanwhile
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
