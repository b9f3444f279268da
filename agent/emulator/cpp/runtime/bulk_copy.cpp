// Bulk copies (cp.async.bulk) between global and shared memory, which complete on an mbarrier or in bulk groups.
//
// A copy on whose completion an mbarrier waits completes when all threads of the block wait, the latest possible
// moment. In draws that shuffle threads, half of the copies complete at once and the other half in random order. Until
// a thread has observed the completion, every access that conflicts with the copy in shared memory is a finding.
#include "bulk.h"
#include "cluster.h"

#include <algorithm>
#include <cstring>

namespace kw {

namespace {

constexpr size_t kUnit = 16;  // bytes of which the addresses and sizes of copies must be multiples

struct Range {
    size_t first, bytes;
};

// Returns the range of shared memory that the copy fills or reads.
Range shared_range(const Bulk& bulk) {
    return {bulk.shared_first, bulk.bytes};
}

uint32_t chance(Worker& worker) {
    worker.chance = worker.chance * 1664525u + 1013904223u;
    return worker.chance >> 16;
}

bool is_shuffled(const Worker& worker) {
    return worker.ordered_by == KW_ORDER_SHUFFLED || worker.ordered_by == KW_ORDER_INTERLEAVED;
}

void arrive(Worker& worker, Bulk& bulk) {
    bulk.arrived = bulk.read = true;
    const bool dropped = bulk.way == Way::kToGlobal && worker.launch->sampled;
    for (const Piece& piece : bulk.pieces) {
        if (dropped) break;
        if (piece.from == nullptr) {
            std::memset(piece.to, bulk.filler, piece.bytes);
        } else if (bulk.reduce != nullptr) {
            bulk.reduce(piece.to, piece.from, piece.bytes);
        } else {
            std::memcpy(piece.to, piece.from, piece.bytes);
        }
    }
    if (bulk.barrier == nullptr) return;
    bulk.phase = bulk.barrier->phase;
    bulk.barrier->bytes -= static_cast<int64_t>(bulk.bytes);
    settle(worker, *bulk.barrier);
}

template <class Gone>
void remove(Worker& worker, Gone gone) {
    auto& all = worker.async->bulk;
    const size_t before = all.size();
    all.erase(std::remove_if(all.begin(), all.end(), [&](std::unique_ptr<Bulk>& b) { return gone(*b); }), all.end());
    worker.pending_copies -= before - all.size();
}

void check_unit(Worker& worker, const Bulk& bulk) {
    const auto odd = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kUnit != 0; };
    const Piece& piece = bulk.pieces.front();
    if (!odd(piece.to) && !odd(piece.from) && bulk.bytes % kUnit == 0) return;
    report(&finding::kMisalignedAccess, Severity::kError, at_code(bulk.code), &worker, [&] {
        return format("A bulk copy of %zu bytes %s: addresses and size have to be multiples of 16 bytes.", bulk.bytes,
                      odd(piece.to)     ? "to an address that is no multiple of 16"
                      : odd(piece.from) ? "from an address that is no multiple of 16"
                                        : "is no multiple of 16");
    });
}

// Reports a conflict of a new copy with another copy in flight to or from the same shared memory.
void check_overlap(Worker& worker, const Bulk& bulk) {
    const Range mine = shared_range(bulk);
    check_in_flight(worker, worker.shared + mine.first, mine.bytes,
                    bulk.way == Way::kToShared ? Access::kWrite : Access::kRead, bulk.code);
}

void check_asked(Worker& worker, const Bulk& bulk) {
    const Range mine = shared_range(bulk);
    check_overlap(worker, bulk);
    if (bulk.way == Way::kToShared) {
        async_access(*watching, mine.first, mine.bytes, Access::kWrite, bulk.code);
    } else {
        async_access(*watching, mine.first, mine.bytes, Access::kRead, bulk.code);
    }
    for (const Piece& piece : bulk.pieces) {
        const bool reads = bulk.way == Way::kToShared && piece.from != nullptr && bulk.content.empty();
        if (reads) check_source(piece.from, piece.bytes, bulk.code);
        if (bulk.way == Way::kToGlobal) {
            if (bulk.reduce != nullptr) check_update(piece.to, piece.bytes, bulk.code);
            if (bulk.reduce == nullptr) check_copy(piece.to, nullptr, piece.bytes, bulk.code);
        }
    }
}

}  // namespace

// Issues a copy for the current thread. `keeper` is the block whose shared memory is filled or read.
void ask(Worker& keeper, std::unique_ptr<Bulk> bulk) {
    Worker& asking = *current_worker;
    if (keeper.async == nullptr) keeper.async = new Async();
    bulk->thread = asking.current;
    bulk->group = keeper.async->group[asking.current];
    if (watching != nullptr) {
        if (&keeper == &asking) check_asked(keeper, *bulk);
        const uintptr_t there = reinterpret_cast<uintptr_t>(keeper.shared) + bulk->shared_first;
        if (&keeper != &asking) peer_access(*watching, there, bulk->bytes, Access::kWrite, bulk->code, true);
        if (&keeper != &asking && bulk->barrier != nullptr) tell_cluster(asking, bulk->barrier->coming_of);
    }
    keeper.async->bulk.push_back(std::move(bulk));
    keeper.pending_copies++;
    if (is_shuffled(keeper) && chance(keeper) % 2 == 0) arrive(keeper, *keeper.async->bulk.back());
}

// Completes one copy on which an mbarrier waits. Returns false if no such copy is in flight.
bool deliver_one(Worker& worker) {
    std::vector<Bulk*> open;
    for (const auto& bulk : worker.async->bulk) {
        if (!bulk->arrived && bulk->barrier != nullptr) open.push_back(bulk.get());
    }
    if (open.empty()) return false;
    size_t chosen = 0;
    if (worker.ordered_by == KW_ORDER_REVERSE) chosen = open.size() - 1;
    if (is_shuffled(worker)) chosen = chance(worker) % open.size();
    arrive(worker, *open[chosen]);
    return true;
}

// Called when a thread has observed that earlier phases of the mbarrier are over. Copies that completed in these phases
// become visible to the thread.
void arrived_seen(Worker& worker, MBarrier& barrier) {
    remove(worker, [&](const Bulk& bulk) {
        if (bulk.barrier != &barrier || !bulk.arrived || bulk.phase == barrier.phase) return false;
        if (watching != nullptr) {
            const Range range = shared_range(bulk);
            note_async_write(*watching, range.first, range.bytes, AsyncWriter{barrier.agent, bulk.layout, bulk.code});
            contribute_agent(*watching, barrier.agent, barrier.done);
        }
        return true;
    });
}

void forget_bulk(Worker& worker) {
    if (worker.async == nullptr) return;
    worker.async->bulk.clear();
    std::fill_n(worker.async->group, worker.count, 0u);
}

// Ends the copies in flight when the block's threads have returned.
void end_bulk(Worker& worker) {
    for (const auto& bulk : worker.async->bulk) {
        if (bulk->arrived && bulk->way == Way::kToShared) continue;
        const bool stores = bulk->way == Way::kToGlobal;
        if (watching != nullptr && !bulk->read) {
            worker.current = bulk->thread;
            report(&finding::kAsyncCopyNotWaited, stores ? Severity::kWarning : Severity::kError, at_code(bulk->code),
                   &worker, [&] {
                       return format("The block ends while this bulk copy %s its shared memory: wait for it (%s).",
                                     stores ? "may still read" : "is on its way to",
                                     stores ? "cp.async.bulk.wait_group.read" : "its mbarrier");
                   });
        }
        if (!bulk->arrived) arrive(worker, *bulk);
    }
    worker.pending_copies -= worker.async->bulk.size();
    worker.async->bulk.clear();
}

// Checks an access of shared memory against all copies and products in flight. Returns false, after a finding, on a
// conflict.
bool check_in_flight(Worker& worker, const void* address, size_t bytes, Access access, uintptr_t code) {
    if (access == Access::kRead && worker.copies != nullptr &&
        !check_not_pending(worker, reinterpret_cast<uintptr_t>(address), bytes, code)) {
        return false;
    }
    const auto first = static_cast<size_t>(static_cast<const char*>(address) - worker.shared);
    if (!check_used_by_peers(worker, first, bytes, access, code)) return false;
    if (access != Access::kRead && worker.products != nullptr && !check_products(worker, first, bytes, code)) return false;
    if (worker.async == nullptr) return true;
    for (const auto& bulk : worker.async->bulk) {
        const bool fills = bulk->way == Way::kToShared;
        if (!fills && (access == Access::kRead || bulk->read)) continue;
        const Range range = shared_range(*bulk);
        if (first + bytes <= range.first || range.first + range.bytes <= first) continue;
        const char* verb = access == Access::kRead ? "Reads" : access == Access::kAtomic ? "Updates" : "Overwrites";
        report(&finding::kAsyncCopyNotWaited, Severity::kError, at_code(code, bulk->code), &worker, [&] {
            if (!fills) {
                return format("%s shared memory that a bulk copy, asked for by thread %d at {other}, may still read: wait "
                              "for it (cp.async.bulk.wait_group.read), and then for that thread.",
                              verb, bulk->thread);
            }
            return format("%s shared memory that a bulk copy, asked for by thread %d at {other}, is filling: no thread "
                          "has waited for the phase of its mbarrier.",
                          verb, bulk->thread);
        });
        return false;
    }
    return true;
}

// Returns the mbarrier on which a copy completes, in the block `keeper` whose memory it fills. Returns null, after a
// finding, if there is no mbarrier at the address.
MBarrier* told_of(Worker& worker, Worker& keeper, const void* barrier, uintptr_t code) {
    MBarrier* told = barrier_at(keeper, barrier);
    if (told == nullptr) {
        report(&finding::kMbarrierMisuse, Severity::kError, at_code(code), &worker, [] {
            return std::string("A copy is to tell an mbarrier that mbarrier.init has not made in the block to whose shared "
                               "memory it goes: undefined.");
        });
    }
    return told;
}

namespace {

struct Source {
    const char* from;
    size_t bytes;
    bool is_value;  // true if `from` points to a temporary, whose bytes must be copied now
};

// Issues a copy that fills shared memory of a block of the cluster and completes on an mbarrier of that block.
void fill(void* to, const Source& source, void* barrier, uintptr_t code) {
    Worker& worker = *current_worker;
    if (source.bytes == 0) return;
    Worker& keeper = owner_of(worker, to);
    MBarrier* told = told_of(worker, keeper, barrier, code);
    if (told == nullptr) return;
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToShared;
    bulk->bytes = source.bytes;
    bulk->shared_first = static_cast<size_t>(static_cast<char*>(to) - keeper.shared);
    bulk->barrier = told;
    bulk->code = code;
    if (source.is_value) bulk->content.assign(source.from, source.from + source.bytes);
    bulk->pieces.push_back({static_cast<char*>(to), source.is_value ? bulk->content.data() : source.from, source.bytes});
    if (watching != nullptr && !source.is_value) check_unit(worker, *bulk);
    ask(keeper, std::move(bulk));
}

}  // namespace

}  // namespace kw

using namespace kw;

extern "C" {

void kw_bulk_load(void* to, const void* from, uint32_t bytes, void* barrier) {
    if (current_worker != nullptr) fill(to, {static_cast<const char*>(from), bytes, false}, barrier, KW_CODE);
}

void kw_bulk_to_peer(void* to, const void* from, uint32_t bytes, void* barrier) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    const auto offset = static_cast<size_t>(static_cast<const char*>(from) - worker.shared);
    if (watching != nullptr) async_access(*watching, offset, bytes, Access::kRead, KW_CODE);
    fill(to, {static_cast<const char*>(from), bytes, false}, barrier, KW_CODE);
}

void kw_store_async(void* to, const void* value, uint32_t bytes, void* barrier) {
    if (current_worker != nullptr) fill(to, {static_cast<const char*>(value), bytes, true}, barrier, KW_CODE);
}

void kw_bulk_multicast(void* to, const void* from, uint32_t bytes, void* barrier, uint32_t ranks) {
    if (current_worker == nullptr) return;
    const auto place = [](const void* p) { return static_cast<uint32_t>(static_cast<const char*>(p) - current_worker->shared); };
    for (; ranks != 0; ranks &= ranks - 1) {
        const auto rank = static_cast<uint32_t>(__builtin_ctz(ranks));
        char* const there = kw_cluster_shared(kw_map_shared(place(to), rank));
        char* const told = kw_cluster_shared(kw_map_shared(place(barrier), rank));
        fill(there, {static_cast<const char*>(from), bytes, false}, told, KW_CODE);
    }
}

void kw_bulk_store(void* to, const void* from, uint32_t bytes, kw_reduction reduce) {
    if (current_worker == nullptr || bytes == 0) return;
    Worker& worker = *current_worker;
    auto bulk = std::make_unique<Bulk>();
    bulk->way = Way::kToGlobal;
    bulk->pieces.push_back({static_cast<char*>(to), static_cast<const char*>(from), bytes});
    bulk->bytes = bytes;
    bulk->shared_first = static_cast<size_t>(static_cast<const char*>(from) - worker.shared);
    bulk->code = KW_CODE;
    bulk->reduce = reduce;
    if (watching != nullptr) check_unit(worker, *bulk);
    ask(worker, std::move(bulk));
}

void kw_bulk_commit(void) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    if (worker.async == nullptr) worker.async = new Async();
    worker.async->group[worker.current]++;
}

void kw_bulk_wait(uint32_t prior, int reads_only) {
    (void)reads_only;  // sources are read on completion, so waiting for reads is waiting for the whole copy
    if (current_worker == nullptr || current_worker->async == nullptr) return;
    Worker& worker = *current_worker;
    const uint32_t committed = worker.async->group[worker.current];
    if (prior >= committed) return;
    remove(worker, [&](Bulk& bulk) {
        if (bulk.thread != worker.current || bulk.way != Way::kToGlobal || bulk.group >= committed - prior) return false;
        if (!bulk.arrived) arrive(worker, bulk);
        return true;
    });
}

void kw_proxy_fence(void) {
    if (watching == nullptr) return;
    Watch& watch = *watching;
    settle_write(watch);
    watch.proxy_fenced[watch.worker->current] = ++watch.clock;
}

}  // extern "C"
