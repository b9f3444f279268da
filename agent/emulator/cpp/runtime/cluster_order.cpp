// Races among the blocks of a cluster, in each other's shared memory.
//
// Each block keeps, for every other block, the barrier and the clock of each thread up to which the other block's
// actions are ordered before its own. It learns them from barriers of the cluster and from mbarriers on which it waited
// (remote arrivals and bytes). Fences count too, for a block that has read any memory atomically. Knowledge of one
// thread counts for its whole block, so only accesses without any order are reported. Cells hold a block's accesses of
// its own memory; `uses` holds the accesses by other blocks.
#include "bulk.h"
#include "cluster.h"

#include <algorithm>

namespace kw {

namespace {

// Time of an access of shared memory, as noted in the cells of the accessed block.
struct Moment {
    int thread;
    uint32_t epoch, clock;
};

bool has_peers(const Worker& worker) { return worker.cluster != nullptr && worker.cluster->size > 1; }

void merge(Foreign& to, const Foreign& from) {
    to.epoch = std::max(to.epoch, from.epoch);
    if (to.clocks.at.size() < from.clocks.at.size()) to.clocks.at.resize(from.clocks.at.size(), 0);
    for (size_t k = 0; k < from.clocks.at.size(); k++) to.clocks.at[k] = std::max(to.clocks.at[k], from.clocks.at[k]);
}

// Returns true if `known` covers the moment: it precedes the known barrier of block `rank` or its thread's known clock.
bool is_in(const Knowledge& known, unsigned rank, const Moment& moment) {
    if (known.of.size() <= rank) return false;
    const Foreign& block = known.of[rank];
    const auto thread = static_cast<size_t>(moment.thread);
    return moment.epoch < block.epoch || (thread < block.clocks.at.size() && block.clocks.at[thread] > moment.clock);
}

bool knows(const Worker& worker, unsigned rank, const Moment& moment) {
    const Cluster& cluster = *worker.cluster;
    return is_in(cluster.knows[worker.cluster_rank], rank, moment) ||
           (worker.watch->acquired && is_in(cluster.published, rank, moment));
}

// Returns true if `known` covers all reads in the cell. With several readers a cell keeps the clock of the first, so
// the reads count as covered if any thread of the block has published a later clock.
bool readers_in(const Knowledge& known, unsigned rank, const SharedCell& cell) {
    if (known.of.size() <= rank) return false;
    const Foreign& block = known.of[rank];
    const auto& at = block.clocks.at;
    return cell.read_epoch < block.epoch ||
           std::any_of(at.begin(), at.end(), [&](uint32_t clock) { return clock > cell.read_clock; });
}

struct Sides {
    const char* did;
    const char* other_did;
    int other;           // number of the other thread; -1: several
    unsigned rank;       // rank of the other thread's block
    unsigned owner;      // rank of the block that owns the memory
    uintptr_t code, other_code;
};

void report_race(const Watch& watch, size_t offset, const Sides& sides) {
    report(&finding::kSharedRace, Severity::kError, at_code(sides.code, sides.other_code), watch.worker, [&] {
        const SharedVariable v = nearest_shared(offset);
        const std::string other = sides.other < 0 ? "several threads" : format("thread %d", sides.other);
        return format("Thread %d of block %u of the cluster %s byte %zu of %s in the shared memory of block %u, which %s of block "
                      "%u %s in {other}, with no barrier of the cluster, nor an mbarrier of it, in between.",
                      watch.worker->current, watch.worker->cluster_rank, sides.did, offset - v.offset, v.text().c_str(),
                      sides.owner, other.c_str(), sides.rank, sides.other_did);
    });
}

// Accessed bytes of one word of shared memory.
struct Part {
    size_t at;
    uint8_t mask;
};

template <class Each>
bool all_parts(size_t offset, size_t bytes, Each each) {
    for (size_t at = offset, end = offset + bytes; at < end; at += 4 - (at & 3)) {
        const size_t part = std::min<size_t>(4 - (at & 3), end - at);
        if (!each(Part{at, static_cast<uint8_t>(byte_mask(at, part))})) return false;
    }
    return true;
}

const char* verb(Access access) {
    return access == Access::kRead ? "reads" : access == Access::kAtomic ? "updates" : "overwrites";
}

Moment moment_of(const PeerUse::Last& last) { return {last.thread, last.epoch, last.clock}; }

// Returns true if the current thread is ordered after `last`, an access by a thread of block `rank`.
bool ordered(const Watch& watch, unsigned rank, const PeerUse::Last& last) {
    const Worker& worker = *watch.worker;
    if (rank != worker.cluster_rank) return knows(worker, rank, moment_of(last));
    return last.thread == worker.current || last.epoch != watch.epoch ||
           thread_ordered(watch, worker.current, last.thread, last.clock);
}

// Compares an access with earlier accesses by blocks that do not own the memory. Returns false, after a finding, on a
// race.
bool check_uses(Watch& watch, unsigned owner, const Part& part, Access access, uintptr_t code) {
    const size_t at = part.at;
    const Cluster& cluster = *watch.worker->cluster;
    const auto found = cluster.uses.find(uint64_t{owner} << 32 | at / 4);
    if (found == cluster.uses.end()) return true;
    for (const PeerUse& use : found->second) {
        const bool both_atomic = access == Access::kAtomic && use.write.atomic;
        if ((use.write.mask & part.mask) != 0 && !both_atomic && !ordered(watch, use.rank, use.write)) {
            const char* other_did = use.write.atomic ? "updated" : "wrote";
            report_race(watch, at, {verb(access), other_did, use.write.thread, use.rank, owner, code, use.write.code});
            return false;
        }
        if (access != Access::kRead && (use.read.mask & part.mask) != 0 && !ordered(watch, use.rank, use.read)) {
            report_race(watch, at, {verb(access), "read", use.read.thread, use.rank, owner, code, use.read.code});
            return false;
        }
    }
    return true;
}

// Compares an access with earlier accesses by threads of the block that owns the memory.
bool check_owner(Watch& watch, const Worker& owner, const Part& part, Access access, uintptr_t code) {
    const Worker& worker = *watch.worker;
    const SharedCell& cell = owner.watch->cells[part.at / 4];
    const unsigned rank = owner.cluster_rank;
    const auto code_of = [&](uint32_t distance) {
        return watch.entry + static_cast<uintptr_t>(static_cast<intptr_t>(static_cast<int32_t>(distance)));
    };
    const bool by_thread = (cell.write_mask & part.mask) != 0 && cell.writer < kMaxThreads;
    const bool both_atomic = access == Access::kAtomic && (cell.write_atomic || cell.write_volatile);
    if (by_thread && !both_atomic && !knows(worker, rank, {cell.writer, cell.write_epoch, cell.write_clock})) {
        report_race(watch, part.at, {verb(access), cell.write_atomic ? "updated" : "wrote", cell.writer, rank, rank, code,
                                     code_of(cell.write_code)});
        return false;
    }
    const bool was_read = (cell.read_mask & part.mask) != 0 && !cell.read_volatile;
    const Cluster& cluster = *worker.cluster;
    if (access == Access::kRead || !was_read || readers_in(cluster.knows[worker.cluster_rank], rank, cell) ||
        (watch.acquired && readers_in(cluster.published, rank, cell))) {
        return true;
    }
    const bool one = !cell.several_warps && (cell.read_lanes & (cell.read_lanes - 1)) == 0;
    report_race(watch, part.at, {verb(access), "read", one ? cell.reader : -1, rank, rank, code, code_of(cell.read_code)});
    return false;
}

void note_use(Watch& watch, Worker& owner, const Part& part, Access access, uintptr_t code) {
    Worker& worker = *watch.worker;
    Cluster& cluster = *worker.cluster;
    if (!owner.used_by_peers) {  // from here on the owner's own accesses are compared with those of other blocks
        owner.used_by_peers = true;
        owner.pending_copies++;
    }
    auto& uses = cluster.uses[uint64_t{owner.cluster_rank} << 32 | part.at / 4];
    auto mine = std::find_if(uses.begin(), uses.end(), [&](const PeerUse& u) { return u.rank == worker.cluster_rank; });
    if (mine == uses.end()) mine = uses.insert(uses.end(), PeerUse{worker.cluster_rank, {}, {}});
    const Thread& thread = worker.threads[worker.current];
    const uint32_t until = cluster.phase + (thread.came_to_cluster ? 1 : 0);
    const PeerUse::Last last{worker.current, watch.epoch, watch.clock, until, part.mask, access == Access::kAtomic, code};
    (access == Access::kRead ? mine->read : mine->write) = last;
}

}  // namespace

void add_knowledge(Knowledge& to, const Knowledge& from) {
    if (to.of.size() < from.of.size()) to.of.resize(from.of.size());
    for (size_t rank = 0; rank < from.of.size(); rank++) merge(to.of[rank], from.of[rank]);
}

// Adds to `to` that the current block's earlier actions are done, and its knowledge about other blocks.
void tell_cluster(Worker& worker, Knowledge& to) {
    if (watching == nullptr || !has_peers(worker)) return;
    Cluster& cluster = *worker.cluster;
    to.of.resize(cluster.size);
    add_knowledge(to, cluster.knows[worker.cluster_rank]);
    if (watching->acquired) add_knowledge(to, cluster.published);
    Foreign& own = to.of[worker.cluster_rank];
    contribute(*watching, worker.current, own.clocks);
    own.epoch = std::max(own.epoch, watching->epoch);
}

void learn_of_cluster(Cluster& cluster, unsigned rank, const Knowledge& from) {
    Knowledge& mine = cluster.knows[rank];
    if (from.of.empty()) return;
    mine.of.resize(cluster.size);
    for (size_t other = 0; other < from.of.size(); other++) {
        if (other != rank) merge(mine.of[other], from.of[other]);
    }
}

// A fence publishes to every block that reads memory atomically.
void fence_cluster(Worker& worker) {
    if (has_peers(worker)) tell_cluster(worker, worker.cluster->published);
}

// Checks the current thread's access of another block's memory. `asynchronous`: a bulk copy of the thread makes it.
void check_peer_use(Watch& watch, Worker& owner, size_t offset, size_t bytes, Access access, bool asynchronous, uintptr_t code) {
    settle_write(watch);
    all_parts(offset, bytes, [&](const Part& part) {
        if (!check_owner(watch, owner, part, access, code)) return false;
        if (!check_uses(watch, owner.cluster_rank, part, access, code)) return false;
        if (!asynchronous) note_use(watch, owner, part, access, code);
        return true;
    });
}

// Checks an access of the block's own memory. Returns false, after a finding, if another block accessed it unordered.
bool check_used_by_peers(Worker& worker, size_t offset, size_t bytes, Access access, uintptr_t code) {
    if (!worker.used_by_peers || !has_peers(worker)) return true;
    return all_parts(offset, bytes, [&](const Part& part) {
        return check_uses(*watching, worker.cluster_rank, part, access, code);
    });
}

// Called when the block is about to end. Reports accesses of its memory by other blocks that are not ordered before.
void end_peer_uses(Worker& worker) {
    if (!worker.used_by_peers) return;
    worker.used_by_peers = false;
    worker.pending_copies--;
    if (watching == nullptr || !has_peers(worker)) return;
    const Cluster& cluster = *worker.cluster;
    for (const auto& [place, uses] : cluster.uses) {
        if (place >> 32 != worker.cluster_rank) continue;
        for (const PeerUse& use : uses) {
            for (const PeerUse::Last& last : {use.read, use.write}) {
                if (last.mask == 0 || cluster.phase > last.until || knows(worker, use.rank, moment_of(last))) continue;
                report(&finding::kClusterPeerGone, Severity::kError, at_code(last.code), &worker, [&] {
                    return format("Thread %d of block %u uses shared memory of block %u of the cluster, which may have returned by "
                                  "then: no barrier of the cluster stands between this and the end of that block.",
                                  last.thread, use.rank, worker.cluster_rank);
                });
            }
        }
    }
}

}  // namespace kw
