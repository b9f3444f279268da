// Checked execution: order between threads by fences and flags.
//
// A fence publishes the earlier accesses of its warp, and accesses that the block's last barrier ordered before the
// fence. An atomic or volatile store after the fence attaches this knowledge to its address. A thread that reads the
// address atomically acquires the knowledge, and its whole block does at the block's next barrier. Clocks are kept for
// each warp of each block of the launch. Readers need no fence: common code has none, and relies on the barrier after a
// poll instead.
#include "watch.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace kw {

namespace {

// Knowledge published by stores to one address.
struct Published {
    std::vector<uint32_t> far;  // clocks by block and warp, for every reader
    uint64_t near_block = 0;    // block whose own warps also acquire the clocks in `near`
    std::vector<uint32_t> near;
    uint64_t version = 0;
};

std::mutex mutex;
std::unordered_map<uintptr_t, Published> by_address;
std::atomic<bool> any_published;
std::atomic<uint64_t> versions;

size_t index_of(const Watch& watch, uint64_t block, int warp) {
    return (block - 1) * static_cast<size_t>(watch.worker->warp_count) + static_cast<size_t>(warp);
}

bool raise(std::vector<uint32_t>& to, size_t index, uint32_t clock) {
    if (clock == 0) return false;
    if (to.size() <= index) to.resize(index + 1, 0);
    if (to[index] >= clock) return false;
    to[index] = clock;
    return true;
}

bool merge(std::vector<uint32_t>& to, const std::vector<uint32_t>& from) {
    bool changed = false;
    if (to.size() < from.size()) to.resize(from.size(), 0);
    for (size_t k = 0; k < from.size(); k++) {
        if (from[k] <= to[k]) continue;
        to[k] = from[k];
        changed = true;
    }
    return changed;
}

// Computes, for each warp of the block, the clock up to which a fence of the current thread publishes the warp's
// accesses.
void published_clocks(const Watch& watch, const Fences& fences, uint32_t* clocks) {
    const int thread = watch.worker->current, own = thread / kWarpSize;
    for (int warp = 0; warp < watch.worker->warp_count; warp++) {
        clocks[warp] = std::max({fences.base[own], fences.settled_base, fences.settled[warp]});
    }
    clocks[own] = std::max(clocks[own], fences.fence[own]);
    if (!watch.exact || fences.fence[own] == 0) return;
    for (int other = 0; other < watch.worker->count; other++) {  // adds knowledge from numbered barriers and mbarriers
        const size_t row = static_cast<size_t>(thread) * static_cast<size_t>(watch.columns);
        uint32_t& clock = clocks[other / kWarpSize];
        clock = std::max(clock, watch.known[row + static_cast<size_t>(column_of(watch, other))]);
    }
}

bool covers(const Watch& watch, const std::vector<uint32_t>& clocks, uint64_t block, int warp, uint32_t clock) {
    const int first = warp < 0 ? 0 : warp, last = warp < 0 ? watch.worker->warp_count - 1 : warp;
    for (int w = first; w <= last; w++) {
        const size_t index = index_of(watch, block, w);
        if (index >= clocks.size() || clocks[index] <= clock) return false;
    }
    return true;
}

bool same_warp(int a, int b) { return a / kWarpSize == b / kWarpSize; }

// Returns the acquisition of the thread's warp, and adds it if needed. Entries for each thread would take gigabytes in
// launches in which many blocks wait for one another.
Acquisition& acquisition_of(Watch& watch, int thread) {
    for (Acquisition& known : watch.acquisitions) {
        if (same_warp(known.thread, thread)) return known;
    }
    watch.acquisitions.push_back({thread, watch.clock, {}});
    return watch.acquisitions.back();
}

// Adds the clocks that the current thread has acquired since the block's last barrier to `to`. Returns true if `to`
// changed.
bool merge_learned(const Watch& watch, std::vector<uint32_t>& to) {
    const int thread = watch.worker->current;
    bool changed = false;
    for (const Acquisition& known : watch.acquisitions) {
        const bool mine = same_warp(known.thread, thread) || thread_ordered(watch, thread, known.thread, known.clock);
        if (mine) changed = merge(to, known.clocks) || changed;
    }
    return changed;
}

// Returns true if every thread of the block already knows all published clocks.
bool is_known_to_all(const Watch& watch, const Published& published) {
    if (published.near_block == watch.block) return false;
    const std::vector<uint32_t>& known = watch.known_to_all;
    for (size_t k = 0; k < published.far.size(); k++) {
        if (published.far[k] > (k < known.size() ? known[k] : 0)) return false;
    }
    return true;
}

// Adds the clocks that were published at the address to the thread's knowledge.
void learn_as(Watch& watch, int thread, uintptr_t address, bool in_block) {
    if (!any_published) return;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = by_address.find(address & ~uintptr_t{3});
    if (found == by_address.end()) return;
    const Published& published = found->second;
    if (published.version == watch.last_version && same_warp(thread, watch.last_learner)) return;
    watch.last_version = published.version;
    watch.last_learner = thread;
    if (is_known_to_all(watch, published)) return;
    std::vector<uint32_t>& clocks = acquisition_of(watch, thread).clocks;
    if (!in_block) merge(clocks, published.far);
    if (published.near_block == watch.block) merge(clocks, published.near);
}

// Acquires, for each lane of the current warp, clocks published since its last atomic read was announced.
void settle_polls_of_warp(Watch& watch) {
    const int first = watch.worker->current / kWarpSize * kWarpSize;
    for (int thread = first; thread < std::min(first + kWarpSize, watch.worker->count); thread++) {
        const Poll& poll = watch.polls[thread];
        if (poll.address != 0) learn_as(watch, thread, poll.address, poll.in_block);
    }
}

void forget_polls(Watch& watch) {
    for (const int thread : watch.pollers) watch.polls[thread] = Poll{};
    watch.pollers.clear();
}

void add_fence(const Watch& watch, Fences& fences) {
    const int warp = watch.worker->current / kWarpSize;
    fences.any = true;
    fences.fence[warp] = watch.clock;
    fences.base[warp] = watch.barrier_clock;
}

void settle(const Watch& watch, Fences& fences) {
    if (!fences.any) return;
    for (int warp = 0; warp < watch.worker->warp_count; warp++) {
        fences.settled[warp] = fences.fence[warp];
        fences.settled_base = std::max(fences.settled_base, fences.base[warp]);
    }
}

}  // namespace

void forget_published() {
    if (!any_published) return;
    by_address.clear();
    any_published = false;
}

void begin_block_order(Watch& watch) {
    watch.barrier_clock = 1;
    watch.barrier_mark = 1u << kClockAt;
    if (watch.near.any) watch.near = watch.far = Fences{};
    watch.acquisitions.clear();
    forget_polls(watch);
    watch.known_to_all.clear();
    watch.last_version = 0;
}

// Called at a barrier of the whole block.
void settle_block_order(Watch& watch) {
    watch.barrier_clock = ++watch.clock;
    watch.barrier_mark = watch.clock < kMostClocks ? watch.clock << kClockAt : UINT32_MAX;
    settle(watch, watch.near);
    settle(watch, watch.far);
    settle_polls(watch);
    for (const Acquisition& known : watch.acquisitions) merge(watch.known_to_all, known.clocks);
    watch.acquisitions.clear();
    forget_polls(watch);
}

void fence_order(Watch& watch, bool for_device) {
    add_fence(watch, watch.near);
    if (for_device) add_fence(watch, watch.far);
    watch.signals[watch.worker->current] = kSignalsAfterFence;
}

// Called when the current thread makes an atomic, volatile or signalling store to the address, on which others may
// wait.
void publish_at(Watch& watch, uintptr_t address, bool in_block) {
    if (!watch.near.any) return;
    const int warps = watch.worker->warp_count;
    settle_polls_of_warp(watch);
    uint32_t near[kMaxWarps], far[kMaxWarps] = {};
    published_clocks(watch, watch.near, near);
    if (!in_block && watch.far.any) published_clocks(watch, watch.far, far);
    const std::lock_guard<std::mutex> lock(mutex);
    Published& published = by_address[address & ~uintptr_t{3}];
    bool changed = false, publishes = false;
    for (int warp = 0; warp < warps; warp++) {
        publishes = publishes || far[warp] != 0;
        changed = raise(published.far, index_of(watch, watch.block, warp), far[warp]) || changed;
    }
    if (publishes) {  // also publishes all clocks that the thread has acquired
        changed = merge(published.far, watch.known_to_all) || changed;
        changed = merge_learned(watch, published.far) || changed;
    }
    if (published.near_block != watch.block) {
        published.near_block = watch.block;
        published.near.clear();
    }
    for (int warp = 0; warp < warps; warp++) {
        changed = raise(published.near, index_of(watch, watch.block, warp), near[warp]) || changed;
    }
    changed = merge_learned(watch, published.near) || changed;
    if (changed) published.version = ++versions;
    any_published = true;
}

// Called before the current thread reads the address atomically, perhaps in a wait for another thread's store. Blocks
// on other OS threads may still store between this call and the read; settle_polls acquires what these stores publish.
void learn_from(Watch& watch, uintptr_t address, bool in_block) {
    const int thread = watch.worker->current;
    learn_as(watch, thread, address, in_block);
    Poll& poll = watch.polls[thread];
    const Poll before = poll;
    if (before.address == address && before.in_block == in_block) return;
    poll = {address, in_block};
    if (before.address == 0) {
        watch.pollers.push_back(thread);
    } else {
        learn_as(watch, thread, before.address, before.in_block);
    }
}

// Acquires, for each thread of the block, clocks published since its last atomic read was announced.
void settle_polls(Watch& watch) {
    for (const int thread : watch.pollers) {
        learn_as(watch, thread, watch.polls[thread].address, watch.polls[thread].in_block);
    }
}

// Adds the clock of the current warp's arrival at a barrier of the cluster to `clocks`, by block and warp.
void arrive_for_others(Watch& watch, std::vector<uint32_t>& clocks) {
    raise(clocks, index_of(watch, watch.block, watch.worker->current / kWarpSize), ++watch.clock);
}

void learn_for_all(Watch& watch, const std::vector<uint32_t>& clocks) { merge(watch.known_to_all, clocks); }

// Returns true if the warp of `thread` itself has acquired the accesses of `block` and `warp` up to `clock`.
bool has_learned(const Watch& watch, int thread, uint64_t block, int warp, uint32_t clock) {
    if (covers(watch, watch.known_to_all, block, warp, clock)) return true;
    for (const Acquisition& known : watch.acquisitions) {
        if (same_warp(known.thread, thread)) return covers(watch, known.clocks, block, warp, clock);
    }
    return false;
}

// Returns true if an access by `warp` (-1: by all warps) of `block` at `clock` is ordered before the current thread.
bool happened_before(const Watch& watch, uint64_t block, int warp, uint32_t clock) {
    const int thread = watch.worker->current;
    if (has_learned(watch, thread, block, warp, clock)) return true;
    for (const Acquisition& known : watch.acquisitions) {
        if (same_warp(known.thread, thread) || !covers(watch, known.clocks, block, warp, clock)) continue;
        if (thread_ordered(watch, thread, known.thread, known.clock)) return true;
    }
    if (block != watch.block || !watch.exact || warp < 0) return false;
    const int first = warp * kWarpSize, end = std::min(first + kWarpSize, watch.worker->count);
    for (int other = first; other < end; other++) {
        if (closely_ordered(watch, thread, other, clock)) return true;
    }
    return false;
}

// Returns true if the block has acquired any knowledge, so that the current thread may be ordered after readers that a
// cell does not list one by one.
bool has_learned_anything(const Watch& watch) {
    return !watch.known_to_all.empty() || !watch.acquisitions.empty();
}

}  // namespace kw
