// The blocks of one cluster, all on one OS thread.
#pragma once

#include "watch.h"

namespace kw {

constexpr unsigned kMostInCluster = 16;
constexpr unsigned kPortableCluster = 8;

struct Cluster {
    unsigned long number;
    unsigned size;
    Worker* blocks[kMostInCluster];  // by rank; null before they begin and after they have ended
    uint32_t gone;                   // ranks that have ended
    long arrived, gone_threads;      // at the barrier in the present phase; that have returned
    uint32_t phase;
    int line;    // of the first that arrived
    long turns;  // in which nothing could go on
    Clocks known[kMostInCluster], done[kMostInCluster];  // for each block: of those that arrived, and in the last phase
};

dim3 cluster_dims(const kw_launch_request& r);
unsigned cluster_size(const kw_launch_request& r);
uint3 block_in_cluster(const kw_launch_request& r, unsigned long number, unsigned rank);
void join_cluster(Worker& worker, unsigned long number, unsigned rank);
void leave_cluster(Worker& worker);
void leave_barrier(Worker& worker, int thread);
bool wait_for_cluster(Worker& worker);
Worker& owner_of(Worker& worker, const void* address);

// waiting.cpp
void let_other_blocks_go(Worker& worker);
void start_peers(Worker& host);

}  // namespace kw
