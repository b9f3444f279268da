// Blocks of one cluster, all of which run on one OS thread.
#pragma once

#include "watch.h"

#include <unordered_map>

namespace kw {

constexpr unsigned kMostInCluster = 16;
constexpr unsigned kPortableCluster = 8;

// Last read and last write of one block to a word of another block's shared memory.
struct PeerUse {
    struct Last {
        int thread;
        uint32_t epoch, clock;
        uint32_t until;  // phase of the cluster's barrier in which the access was made
        uint8_t mask;    // accessed bytes of the word, one bit each; 0: no access
        bool atomic;
        uintptr_t code;
    };
    unsigned rank;  // rank of the accessing block
    Last read, write;
};

// State of one cluster whose blocks run.
struct Cluster {
    unsigned long number;
    unsigned size;  // number of blocks
    Worker* blocks[kMostInCluster];  // blocks by rank; null before a block begins and after it has ended
    uint32_t gone;                   // mask of the ranks that have ended
    long arrived, gone_threads;      // threads at the barrier in the current phase; threads that have returned
    uint32_t phase;
    int line;    // source line of the first arrival at the barrier
    long turns;  // turns without progress
    Clocks known[kMostInCluster], done[kMostInCluster];  // clocks of each block's arrivals, now and in the last phase
    char* arenas[kMostInCluster];        // address of the shared memory of each block that has ended
    Knowledge knows[kMostInCluster];     // knowledge of each block about the other blocks
    Knowledge coming;                    // knowledge of the threads that arrived in the current phase
    Knowledge published;                 // knowledge that fences have published
    std::vector<uint32_t> clocks;        // clocks of the arrivals, by block of the launch and warp
    std::unordered_map<uint64_t, std::vector<PeerUse>> uses;  // accesses, by rank of the memory's block and word
};

dim3 cluster_dims(const kw_launch_request& r);
unsigned cluster_size(const kw_launch_request& r);
uint3 block_in_cluster(const kw_launch_request& r, unsigned long number, unsigned rank);
void join_cluster(Worker& worker, unsigned long number, unsigned rank);
void leave_cluster(Worker& worker);
void leave_barrier(Worker& worker, int thread);
bool wait_for_cluster(Worker& worker);
Worker& owner_of(Worker& worker, const void* address);

// cluster_order.cpp
void tell_cluster(Worker& worker, Knowledge& to);
void learn_of_cluster(Cluster& cluster, unsigned rank, const Knowledge& from);
void add_knowledge(Knowledge& to, const Knowledge& from);
void check_peer_use(Watch& watch, Worker& owner, size_t offset, size_t bytes, Access access, bool asynchronous, uintptr_t code);
void end_peer_uses(Worker& worker);

// waiting.cpp
void let_other_blocks_go(Worker& worker);
void start_peers(Worker& host);

}  // namespace kw
