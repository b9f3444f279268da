// mbarriers: barriers in shared memory that count arrivals and the bytes of asynchronous copies, phase by phase.
//
// The state of an mbarrier is kept outside of shared memory and found by the mbarrier's offset. A thread that waits in
// vain lets the other threads of its block run. Once all threads wait, a copy completes (bulk_copy.cpp), so copies
// complete as late as possible.
#include "bulk.h"
#include "cluster.h"

#include <cstring>

namespace kw {

namespace {

constexpr uint64_t kToken = 0x6b77000000000000;  // the state token of an arrival is kToken plus the phase
constexpr uint32_t kMostArrivals = (1u << 20) - 1;
constexpr long kPatienceWithBlocks = 1 << 18;  // turns given to other blocks of the cluster before a deadlock
constexpr int kFruitlessRounds = 64;  // rounds in which all threads waited in vain before a deadlock is reported

template <class Words>
void misuse(Worker& worker, uintptr_t code, Words words) {
    report(&finding::kMbarrierMisuse, Severity::kError, at_code(code), &worker, words);
}

Async& async_of(Worker& worker) {
    if (worker.async == nullptr) worker.async = new Async();
    return *worker.async;
}

bool in_shared(const Worker& worker, const void* address) {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(worker.shared) < kSharedArena;
}

// Returns the mbarrier at the address; null, after a finding, if none was initialised there.
MBarrier* found_at(Worker& worker, const void* address, uintptr_t code) {
    MBarrier* barrier = barrier_at(worker, address);
    if (barrier == nullptr) {
        misuse(worker, code, [&] {
            return std::string("Uses an mbarrier that mbarrier.init has not made (or mbarrier.inval has ended): undefined.");
        });
    }
    return barrier;
}

void note_progress(Worker& worker) {
    async_of(worker).period++;
    async_of(worker).waiting = 0;
    async_of(worker).rounds = 0;
    async_of(worker).turns = 0;
}

void complete_phase(Worker& worker, MBarrier& barrier) {
    barrier.phase++;
    barrier.pending = barrier.expected;
    note_progress(worker);
    if (watching == nullptr) return;
    if (barrier.done.at.size() < barrier.coming.at.size()) barrier.done.at.resize(barrier.coming.at.size(), 0);
    for (size_t k = 0; k < barrier.coming.at.size(); k++) {
        if (barrier.coming.at[k] > barrier.done.at[k]) barrier.done.at[k] = barrier.coming.at[k];
    }
    barrier.coming.at.clear();
    add_knowledge(barrier.done_of, barrier.coming_of);
    barrier.coming_of.of.clear();
}

// Yields to threads that can continue; if no thread can, completes one copy in flight. If no copy is in flight either,
// reports a deadlock.
void wait_a_turn(Worker& worker, MBarrier& barrier, uintptr_t code) {
    Async& async = async_of(worker);
    Thread& thread = worker.threads[worker.current];
    if (worker.launch->stop) abandon(worker, Fault::kNone, "", 0);
    if (async.waited_in[worker.current] != async.period) {
        async.waited_in[worker.current] = async.period;
        async.waiting++;
    }
    const bool everybody = async.waiting > worker.ready_count && worker.next_fresh == worker.count;
    if (!everybody) return kw_yield();
    if (deliver_one(worker)) {
        note_progress(worker);
        return;
    }
    if (worker.cluster != nullptr && ++async.turns < kPatienceWithBlocks) return let_other_blocks_go(worker);
    async.period++;  // counts the waiting threads again, because some may be able to continue by now
    async.waiting = 0;
    if (++async.rounds < kFruitlessRounds) return kw_yield();
    thread.line = 0;
    worker.fault.code = code;
    abandon(worker, Fault::kDeadlock,
            format("Waits for ever for an mbarrier (%zu bytes into shared memory): its phase %u lacks %u arrivals and "
                   "%lld bytes, no copy is on its way, and all other threads of the block wait too.",
                   barrier.offset, barrier.phase, barrier.pending, static_cast<long long>(barrier.bytes)),
            0);
}

}  // namespace

MBarrier* barrier_at(Worker& worker, const void* address) {
    if (worker.async == nullptr || !in_shared(worker, address)) return nullptr;
    const size_t offset = static_cast<size_t>(static_cast<const char*>(address) - worker.shared);
    const uint16_t slot = offset % 8 == 0 ? worker.async->slots[offset / 8] : 0;
    return slot == 0 ? nullptr : worker.async->barriers[slot - 1].get();
}

void settle(Worker& worker, MBarrier& barrier) {
    if (barrier.pending == 0 && barrier.bytes == 0) complete_phase(worker, barrier);
}

// Returns `over`. If the phase is over, the thread learns of the arrivals and copies that completed it.
bool seen(Worker& worker, MBarrier& barrier, bool over) {
    if (!over) return false;
    if (!worker.async->bulk.empty()) arrived_seen(worker, barrier);
    if (watching != nullptr) learn(*watching, worker.current, barrier.done);
    if (watching != nullptr && worker.cluster != nullptr) {
        learn_of_cluster(*worker.cluster, worker.cluster_rank, barrier.done_of);
    }
    return true;
}

void forget_async(Worker& worker) {
    for (const auto& barrier : worker.async->barriers) worker.async->slots[barrier->offset / 8] = 0;
    worker.async->barriers.clear();
    forget_bulk(worker);
    note_progress(worker);
}

void release_async(Worker& worker) {
    delete worker.async;
    worker.async = nullptr;
}

}  // namespace kw

using namespace kw;

extern "C" {

void kw_mbarrier_init(void* address, uint32_t count) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    Async& async = async_of(worker);
    if (watching != nullptr) {
        check_copy(address, nullptr, 8, KW_CODE);
        if (reinterpret_cast<uintptr_t>(address) % 8 != 0 || count == 0 || count > kMostArrivals) {
            misuse(worker, KW_CODE, [&] {
                return format("mbarrier.init for %u arrivals at an address %% 8 = %zu: it takes 1 to %u, at a multiple of 8.",
                              count, reinterpret_cast<uintptr_t>(address) % 8, kMostArrivals);
            });
        }
    }
    if (!in_shared(worker, address) || reinterpret_cast<uintptr_t>(address) % 8 != 0) return;
    MBarrier* barrier = barrier_at(worker, address);
    if (barrier == nullptr) {
        async.barriers.push_back(std::make_unique<MBarrier>());
        barrier = async.barriers.back().get();
        const size_t offset = static_cast<size_t>(static_cast<char*>(address) - worker.shared);
        async.slots[offset / 8] = static_cast<uint16_t>(async.barriers.size());
        const int agent = kMaxThreads + static_cast<int>((async.barriers.size() - 1) % kMaxAgents);
        *barrier = MBarrier{offset, count, count, 0, 0, agent, {}, {}, {}, {}};
    } else {
        const MBarrier anew{barrier->offset, count, count, 0, 0, barrier->agent, {}, {}, {}, {}};
        *barrier = anew;
    }
    const uint64_t word = kToken;
    std::memcpy(address, &word, sizeof word);
}

void kw_mbarrier_invalidate(void* address) {
    if (current_worker == nullptr) return;
    Worker& worker = *current_worker;
    MBarrier* barrier = found_at(worker, address, KW_CODE);
    if (barrier != nullptr) worker.async->slots[barrier->offset / 8] = 0;
}

// Arrives at an mbarrier and returns the state token of the current phase. With `drops`, the expected count falls by
// `count` from the next phase on.
uint64_t kw_mbarrier_arrive(void* address, uint32_t count, int64_t bytes, int drops) {
    if (current_worker == nullptr) return 0;
    Worker& worker = *current_worker;
    Worker& owner = owner_of(worker, address);
    MBarrier* barrier = found_at(owner, address, KW_CODE);
    if (barrier == nullptr) return 0;
    if (watching != nullptr && &owner == &worker) contribute(*watching, worker.current, barrier->coming);
    if (&owner != &worker) tell_cluster(worker, barrier->coming_of);
    const uint64_t state = kToken | barrier->phase;
    barrier->bytes += bytes;
    if (count > barrier->pending) {
        misuse(worker, KW_CODE, [&] {
            return format("Arrives %u times at an mbarrier whose phase waits for %u more: the count of mbarrier.init is "
                          "too small, or a thread arrives twice.",
                          count, barrier->pending);
        });
        count = barrier->pending;
    }
    if (drops != 0) barrier->expected -= count;
    barrier->pending -= count;
    note_progress(owner);
    settle(owner, *barrier);
    return state;
}

void kw_mbarrier_expect(void* address, int64_t bytes) {
    if (current_worker == nullptr) return;
    Worker& owner = owner_of(*current_worker, address);
    MBarrier* barrier = found_at(owner, address, KW_CODE);
    if (barrier == nullptr) return;
    barrier->bytes += bytes;
    note_progress(owner);
    settle(owner, *barrier);
}

// Returns 1 if the phase with that parity is over; kw_mbarrier_state_over does the same for a state token.
int kw_mbarrier_parity_over(void* address, uint32_t parity) {
    if (current_worker == nullptr) return 1;
    Worker& worker = *current_worker;
    MBarrier* barrier = found_at(worker, address, KW_CODE);
    if (barrier == nullptr) return 1;
    const auto over = [&] { return (barrier->phase & 1) != (parity & 1); };
    if (!over()) wait_a_turn(worker, *barrier, KW_CODE);
    return seen(worker, *barrier, over());
}

int kw_mbarrier_state_over(void* address, uint64_t state) {
    if (current_worker == nullptr) return 1;
    Worker& worker = *current_worker;
    MBarrier* barrier = found_at(worker, address, KW_CODE);
    if (barrier == nullptr) return 1;
    const auto over = [&] { return barrier->phase != static_cast<uint32_t>(state); };
    if (!over()) wait_a_turn(worker, *barrier, KW_CODE);
    return seen(worker, *barrier, over());
}

}  // extern "C"
