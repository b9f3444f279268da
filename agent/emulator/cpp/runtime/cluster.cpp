// Clusters: blocks that are resident together, wait for each other and access each other's shared memory.
//
// All blocks of a cluster run on one OS thread (waiting.cpp), so the state of a cluster needs no lock. A thread that
// waits for its cluster lets the other blocks continue.
#include "bulk.h"
#include "cluster.h"

namespace kw {

namespace {

constexpr long kPatienceWithBlocks = 1 << 18;  // turns without progress before a deadlock is reported

bool waits(const Worker& worker) {
    for (int t = 0; t < worker.count; t++) {
        if (worker.threads[t].state == State::kAtCluster) return true;
    }
    return false;
}

void complete(Cluster& cluster) {
    cluster.phase++;
    cluster.arrived = 0;
    for (unsigned rank = 0; rank < cluster.size; rank++) {
        Worker* block = cluster.blocks[rank];
        if (block == nullptr) continue;
        for (int k = 0; k < block->count; k++) {
            const int t = block->order[k];
            if (block->threads[t].state != State::kAtCluster) continue;
            if (block->watch != nullptr && watching != nullptr) learn(*block->watch, t, cluster.known[rank]);
            make_ready(*block, t);
        }
        if (block->watch != nullptr && watching != nullptr) learn_for_all(*block->watch, cluster.clocks);
        cluster.done[rank] = cluster.known[rank];
        cluster.known[rank].at.clear();
        learn_of_cluster(cluster, rank, cluster.coming);
    }
    cluster.coming.of.clear();
}

bool is_complete(const Cluster& cluster, int threads) {
    return cluster.arrived > 0 && cluster.arrived + cluster.gone_threads == static_cast<long>(cluster.size) * threads;
}

template <class Words>
[[noreturn]] void no_such_peer(Worker& worker, uintptr_t code, Words words) {
    report(&finding::kClusterPeerGone, Severity::kError, at_code(code), &worker, words);
    abandon(worker, Fault::kMisplaced, "", 0);
}

// Returns the cluster of the current block; in a launch without clusters each block is a cluster of its own.
Cluster& cluster_here(Worker& worker) {
    if (worker.cluster != nullptr) return *worker.cluster;
    if (worker.launch->sampled) {
        give_up(worker, kWaiting);
        abandon(worker, Fault::kGivenUp, "", 0);
    }
    const uint3 at = kw_block_index, grid = kw_grid_dim;
    join_cluster(worker, (static_cast<unsigned long>(at.z) * grid.y + at.y) * grid.x + at.x, 0);
    worker.cluster->gone_threads = worker.finished;
    for (int t = 0; t < worker.count; t++) worker.threads[t].came_to_cluster = false;
    return *worker.cluster;
}

// Returns the block of the worker's cluster whose shared memory holds the address; null: none.
Worker* holder(Worker& worker, uintptr_t address) {
    if (address - reinterpret_cast<uintptr_t>(worker.shared) < kSharedArena) return &worker;
    if (worker.cluster == nullptr) return nullptr;
    for (unsigned rank = 0; rank < worker.cluster->size; rank++) {
        Worker* block = worker.cluster->blocks[rank];
        if (block != nullptr && address - reinterpret_cast<uintptr_t>(block->shared) < kSharedArena) return block;
    }
    return nullptr;
}

// Reports an address in the shared memory of a block that has ended since the address was mapped.
bool was_of_peer(Worker& worker, uintptr_t address, uintptr_t code) {
    const Cluster& cluster = *worker.cluster;
    for (unsigned rank = 0; rank < cluster.size; rank++) {
        if ((cluster.gone >> rank & 1) == 0 || address - reinterpret_cast<uintptr_t>(cluster.arenas[rank]) >= kSharedArena) continue;
        report(&finding::kClusterPeerGone, Severity::kError, at_code(code), &worker, [&] {
            return format("Uses shared memory of block %u of the cluster, which has returned: a barrier of the cluster has to stand "
                          "before the blocks end.", rank);
        });
        return true;
    }
    return false;
}

}  // namespace

dim3 cluster_dims(const kw_launch_request& r) {
    return dim3(r.cluster[0] > 0 ? r.cluster[0] : 1, r.cluster[1] > 0 ? r.cluster[1] : 1, r.cluster[2] > 0 ? r.cluster[2] : 1);
}

unsigned cluster_size(const kw_launch_request& r) {
    const dim3 d = cluster_dims(r);
    return d.x * d.y * d.z;
}

// Returns the index of block `rank` of cluster `number`.
uint3 block_in_cluster(const kw_launch_request& r, unsigned long number, unsigned rank) {
    const dim3 d = cluster_dims(r);
    const unsigned long wide = r.grid.x / d.x, high = r.grid.y / d.y;
    return {static_cast<unsigned>(number % wide) * d.x + rank % d.x,
            static_cast<unsigned>(number / wide % high) * d.y + rank / d.x % d.y,
            static_cast<unsigned>(number / (wide * high)) * d.z + rank / (d.x * d.y)};
}

void join_cluster(Worker& worker, unsigned long number, unsigned rank) {
    auto& all = worker.host->clusters;
    Cluster* mine = nullptr;
    for (const auto& cluster : all) {
        if (cluster->number == number) mine = cluster.get();
    }
    if (mine == nullptr) {
        all.push_back(std::make_unique<Cluster>());
        mine = all.back().get();
        mine->number = number;
        mine->size = cluster_size(*worker.launch->request);
    }
    mine->blocks[rank] = &worker;
    worker.used_by_peers = false;
    worker.cluster = mine;
    worker.cluster_rank = rank;
}

// Removes a block that has ended from its cluster.
void leave_cluster(Worker& worker) {
    end_peer_uses(worker);
    Cluster* cluster = worker.cluster;
    cluster->arenas[worker.cluster_rank] = worker.shared;
    cluster->blocks[worker.cluster_rank] = nullptr;
    cluster->gone |= 1u << worker.cluster_rank;
    worker.cluster = nullptr;
    if (cluster->gone != (1u << cluster->size) - 1) return;
    auto& all = worker.host->clusters;
    for (size_t k = 0; k < all.size(); k++) {
        if (all[k].get() == cluster) {
            all.erase(all.begin() + static_cast<long>(k));
            return;
        }
    }
}

void leave_barrier(Worker& worker, int thread) {
    Cluster* cluster = worker.cluster;
    if (worker.threads[thread].came_to_cluster) cluster->arrived--;
    worker.threads[thread].came_to_cluster = false;
    cluster->gone_threads++;
    if (is_complete(*cluster, worker.count)) complete(*cluster);
}

// Lets other blocks continue when no thread of this block can. Returns false if the block does not wait for its
// cluster.
bool wait_for_cluster(Worker& worker) {
    if (worker.cluster == nullptr || !waits(worker)) return false;
    if (++worker.cluster->turns > kPatienceWithBlocks) {
        abandon(worker, Fault::kDeadlock,
                format("Waits for ever for its cluster: %ld of %ld threads have come to barrier.cluster.",
                       worker.cluster->arrived, static_cast<long>(worker.cluster->size) * worker.count),
                worker.cluster->line);
    }
    let_other_blocks_go(worker);
    return true;
}

// Checks an access of another block's shared memory. Returns false if the address lies in no block of the cluster.
bool peer_access(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code, bool asynchronous) {
    Worker* owner = holder(*watch.worker, address);
    if (owner == nullptr && was_of_peer(*watch.worker, address, code)) return true;
    if (owner == nullptr || owner == watch.worker || owner->watch == nullptr) return false;
    const size_t offset = address - reinterpret_cast<uintptr_t>(owner->shared);
    for (size_t at = offset; at < offset + bytes; at++) {
        if (at / 4 >= kSharedArena / 4 || (usable_shared[at / 4] >> (at & 3) & 1) == 0) {
            report_outside_shared(watch, offset, bytes, access, code);
            return true;
        }
        SharedCell& cell = owner->watch->cells[at / 4];
        if (cell.block != owner->watch->block_serial) {
            cell = SharedCell{};
            cell.block = owner->watch->block_serial;
        }
        const uint8_t bit = static_cast<uint8_t>(1 << (at & 3));
        if (access != Access::kWrite && (cell.written & bit) == 0) {
            report_unwritten_shared(watch, offset, code);
            return true;
        }
        cell.written |= bit;
    }
    if (!watch.polling) check_peer_use(watch, *owner, offset, bytes, access, asynchronous, code);
    return true;
}

Worker& owner_of(Worker& worker, const void* address) {
    Worker* owner = holder(worker, reinterpret_cast<uintptr_t>(address));
    return owner == nullptr ? worker : *owner;
}

}  // namespace kw

using namespace kw;

extern "C" {

uint32_t kw_cluster(int what) {
    if (current_worker == nullptr) return 0;
    const Worker& worker = *current_worker;
    const dim3 dims = worker.cluster == nullptr ? dim3(1, 1, 1) : cluster_dims(*worker.launch->request);
    const uint32_t rank = worker.cluster == nullptr ? 0 : worker.cluster_rank;
    switch (what) {
        case KW_CLUSTER_RANK: return rank;
        case KW_CLUSTER_SIZE: return dims.x * dims.y * dims.z;
        case KW_CLUSTER_RANK_X: return rank % dims.x;
        case KW_CLUSTER_RANK_Y: return rank / dims.x % dims.y;
        case KW_CLUSTER_RANK_Z: return rank / (dims.x * dims.y);
        case KW_CLUSTER_SIZE_X: return dims.x;
        case KW_CLUSTER_SIZE_Y: return dims.y;
        case KW_CLUSTER_SIZE_Z: return dims.z;
        case KW_CLUSTER_X: return kw_block_index.x / dims.x;
        case KW_CLUSTER_Y: return kw_block_index.y / dims.y;
        case KW_CLUSTER_Z: return kw_block_index.z / dims.z;
        case KW_CLUSTERS_X: return kw_grid_dim.x / dims.x;
        case KW_CLUSTERS_Y: return kw_grid_dim.y / dims.y;
        default: return kw_grid_dim.z / dims.z;
    }
}

void kw_cluster_arrive(int relaxed, int line) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    Cluster& cluster = cluster_here(worker);
    Thread& thread = worker.threads[worker.current];
    thread.came_to_cluster = true;
    thread.cluster_phase = cluster.phase;
    if (cluster.arrived++ == 0) cluster.line = line;
    cluster.turns = 0;
    if (watching != nullptr && relaxed == 0) contribute(*watching, worker.current, cluster.known[worker.cluster_rank]);
    const bool fenced = watching != nullptr && watching->released[worker.current] != 0;
    if (relaxed == 0 || fenced) tell_cluster(worker, cluster.coming);
    if (watching != nullptr && (relaxed == 0 || fenced)) arrive_for_others(*watching, cluster.clocks);
    if (is_complete(cluster, worker.count)) complete(cluster);
}

void kw_cluster_wait(int line) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    Cluster& cluster = cluster_here(worker);
    Thread& thread = worker.threads[worker.current];
    if (!thread.came_to_cluster) {
        report(&finding::kClusterBarrier, Severity::kError, line, &worker, [] {
            return std::string("Waits for its cluster without having arrived (barrier.cluster.arrive): undefined.");
        });
        return;
    }
    thread.came_to_cluster = false;
    if (thread.cluster_phase != cluster.phase) {
        if (watching != nullptr) learn(*watching, worker.current, cluster.done[worker.cluster_rank]);
        return;
    }
    const int warp = worker.current / kWarpSize;
    thread.state = State::kAtCluster;
    thread.line = line;
    worker.warps[warp].runnable--;
    if (worker.warps[warp].pending_count > 0) settle_warp(worker, warp);
    park(worker);
}

uint32_t kw_map_shared(uint32_t address, uint32_t rank) {
    return (rank + 1) * static_cast<uint32_t>(kSharedArena) + (address & static_cast<uint32_t>(kSharedArena - 1));
}

char* kw_cluster_shared(uint32_t address) {
    if (current_worker == nullptr) return nullptr;
    Worker& worker = *current_worker;
    const unsigned rank = address / kSharedArena - 1;
    const size_t offset = address % kSharedArena;
    const Cluster& cluster = cluster_here(worker);
    if (rank < cluster.size && cluster.blocks[rank] != nullptr) return cluster.blocks[rank]->shared + offset;
    no_such_peer(worker, KW_CODE, [&] {
        if (rank >= cluster.size) return format("Uses shared memory of block %u of a cluster of %u.", rank, cluster.size);
        const bool gone = (cluster.gone >> rank & 1) != 0;
        return format("Uses shared memory of block %u of the cluster, which %s: a barrier of the cluster has to stand %s.",
                      rank, gone ? "has returned" : "has not begun", gone ? "before the blocks end" : "before the first such use");
    });
}

// Maps a generic address to another block of the cluster (mapa). Mapping needs no cluster barrier; only an access must
// be ordered after the start of the other block.
char* kw_map_generic(char* address, uint32_t rank) {
    if (current_worker == nullptr) return address;
    Worker& worker = *current_worker;
    const Worker& owner = owner_of(worker, address);
    const auto offset = static_cast<size_t>(address - owner.shared);
    const Cluster& cluster = cluster_here(worker);
    if (rank >= cluster.size) return kw_cluster_shared(kw_map_shared(static_cast<uint32_t>(offset), rank));
    while (cluster.blocks[rank] == nullptr && (cluster.gone >> rank & 1) == 0) {
        if (worker.launch->stop) abandon(worker, Fault::kNone, "", 0);
        let_other_blocks_go(worker);
    }
    return (cluster.blocks[rank] == nullptr ? cluster.arenas[rank] : cluster.blocks[rank]->shared) + offset;
}

int kw_is_cluster_shared(uint64_t address) {
    return current_worker != nullptr && holder(*current_worker, address) != nullptr;
}

uint32_t kw_rank_of(const char* address) {
    return current_worker == nullptr ? 0 : owner_of(*current_worker, address).cluster_rank;
}

}  // extern "C"
