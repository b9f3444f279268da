// Checked execution: exact order between threads, for blocks that synchronise by more than __syncthreads(): numbered
// barriers and mbarriers.
//
// A vector clock per thread holds, for every other thread and every asynchronous agent, the clock up to which the
// thread is ordered after it. An agent stands for all copies that complete on one mbarrier. The vector clocks are
// allocated when a block first needs them.
#include "watch.h"

#include <algorithm>

namespace kw {

namespace {

void begin(Watch& watch) {
    if (watch.exact) return;
    watch.exact = watch.fenced = true;
    watch.columns = watch.worker->count + kMaxAgents;
    watch.known.assign(static_cast<size_t>(watch.worker->count) * static_cast<size_t>(watch.columns), 0);
    std::fill_n(watch.unshared, kMaxWarps, 0u);
}

uint32_t* row_of(Watch& watch, int thread) {
    return watch.known.data() + static_cast<size_t>(thread) * static_cast<size_t>(watch.columns);
}

void raise(uint32_t* to, const uint32_t* from, int count) {
    for (int k = 0; k < count; k++) to[k] = std::max(to[k], from[k]);
}

}  // namespace

int column_of(const Watch& watch, int who) {
    return who < kMaxThreads ? who : watch.worker->count + (who - kMaxThreads);
}

// Adds the thread's current clock, and all clocks that the thread knows, to `to`.
void contribute(Watch& watch, int thread, Clocks& to) {
    begin(watch);
    settle_write(watch);
    to.at.resize(static_cast<size_t>(watch.columns), 0);
    const uint32_t now = ++watch.clock;
    raise(to.at.data(), row_of(watch, thread), watch.columns);
    const int warp = thread / kWarpSize;
    for (int lane = 0; lane < kWarpSize; lane++) {  // warp operations order the lanes of the thread's own warp
        const int other = warp * kWarpSize + lane;
        if (other >= watch.worker->count) break;
        uint32_t seen = watch.warp_clock[warp];
        if (watch.partly_met[warp]) seen = std::max(seen, watch.met[warp][thread % kWarpSize][lane]);
        uint32_t& at = to.at[static_cast<size_t>(other)];
        at = std::max(at, other == thread ? now : seen);
    }
}

// Adds the agent's current clock to `to`, so that all its copies so far count as known.
void contribute_agent(Watch& watch, int agent, Clocks& to) {
    begin(watch);
    to.at.resize(static_cast<size_t>(watch.columns), 0);
    to.at[static_cast<size_t>(column_of(watch, agent))] = ++watch.clock;
}

void learn(Watch& watch, int thread, const Clocks& from) {
    begin(watch);
    ++watch.clock;
    if (from.at.empty()) return;
    raise(row_of(watch, thread), from.at.data(), watch.columns);
    watch.unshared[thread / kWarpSize] |= 1u << thread % kWarpSize;
}

// Gives each lane of a warp operation the union of the clocks that the lanes know.
void share_knowledge(Watch& watch, int warp, uint32_t lanes) {
    if ((watch.unshared[warp] & lanes) == 0) return;
    std::vector<uint32_t> all(static_cast<size_t>(watch.columns), 0);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        raise(all.data(), row_of(watch, warp * kWarpSize + __builtin_ctz(rest)), watch.columns);
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        std::copy(all.begin(), all.end(), row_of(watch, warp * kWarpSize + __builtin_ctz(rest)));
    }
    const int left = watch.worker->count - warp * kWarpSize;
    const uint32_t whole = left >= kWarpSize ? 0xffffffffu : (1u << left) - 1;
    watch.unshared[warp] = lanes == whole ? 0 : watch.unshared[warp] | lanes;
}

}  // namespace kw
