// Checked execution: the clocks that order accesses within one block.
//
// A barrier orders all threads of the block (epoch). A warp operation orders the lanes that took part in it (clock).
// A fence and a flag order threads of two warps (happens_before.cpp). They also order two lanes of one warp, as in
// locks: one lane runs a fence after its access, and then the other lane runs an atomic operation.
#include "watch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

extern "C" {
int kw_checking;  // 1 while checks are on; device code reads this variable (kw/device.h)
}

namespace kw {

KW_TLS Watch* watching;

namespace {

std::atomic<bool> wanted;
uint64_t launch_number;  // number of the checked launch, 1 to 65535

}  // namespace

bool checks_wanted() { return wanted; }

void require_switches() {
    if ((kw_checking != 0) == wanted) return;
    kw_checking = wanted;
    report_tampering("kw_checking");
}

// Called by kw_launch before any worker starts.
void begin_checked_launch() {
    if (++launch_number > 0xffff) {
        clear_cells();
        launch_number = 1;
    }
    publish_regions();
    forget_published();
}

void begin_watch(Worker& worker) {
    if (worker.watch == nullptr) {
        worker.watch = new Watch();
        worker.watch->cells = static_cast<SharedCell*>(std::calloc(kSharedArena / 4, sizeof(SharedCell)));
        worker.watch->worker = &worker;
    }
    Watch& watch = *worker.watch;
    std::memset(watch.sites, 0, sizeof watch.sites);
    watch.launch = launch_number << 48;
    watch.entry = reinterpret_cast<uintptr_t>(worker.launch->request->entry);
    watch.write.bytes = 0;
    watch.index.code = 0;
    watch.reported = kNothing;
    watch.misplaced_code = 0;
    watching = &watch;
}

void end_watch() { watching = nullptr; }

void release_watch(Worker& worker) {
    if (worker.watch == nullptr) return;
    std::free(worker.watch->cells);
    delete worker.watch;
    worker.watch = nullptr;
}

void begin_watched_block(Watch& watch) {
    const Worker& worker = *watch.worker;
    watch.shared = reinterpret_cast<uintptr_t>(worker.shared);
    watch.acquired = watch.fenced = watch.exact = false;
    if (worker.launch->sampled) begin_sampled_block(watch);
    if (!watch.stores.empty()) std::fill(watch.stores.begin(), watch.stores.end(), 0);
    watch.block_serial++;
    watch.epoch++;
    watch.clock = 1;
    begin_block_order(watch);
    std::fill_n(watch.signals, worker.count, uint8_t{0});
    std::fill_n(watch.in_block, worker.count, uint8_t{0});
    std::fill_n(watch.released, worker.count, 0);
    std::fill_n(watch.observed, worker.count, 0);
    std::fill_n(watch.proxy_fenced, worker.count, 0);
    for (int warp = 0; warp < worker.warp_count; warp++) {
        watch.warp_clock[warp] = 0;
        if (watch.partly_met[warp]) std::memset(watch.met[warp], 0, sizeof watch.met[warp]);
        watch.partly_met[warp] = false;
    }
}

void end_watched_block(Watch& watch) {
    settle_write(watch);
    settle_index(watch, 0, 0);
}

void note_barrier(Watch& watch) {
    settle_write(watch);
    watch.epoch++;
    settle_block_order(watch);
}

void note_warp_operation(Watch& watch, int warp, uint32_t lanes) {
    const Worker& worker = *watch.worker;
    const int left = worker.count - warp * kWarpSize;
    const uint32_t all = left >= kWarpSize ? 0xffffffffu : (1u << left) - 1;
    watch.clock++;
    if (watch.exact) share_knowledge(watch, warp, lanes);
    if (lanes == all) {
        watch.warp_clock[warp] = watch.clock;
        return;
    }
    // Any lane that was ordered before one of these lanes is now ordered before all of them.
    watch.partly_met[warp] = true;
    auto& met = watch.met[warp];
    uint32_t merged[kWarpSize] = {};
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const auto& row = met[__builtin_ctz(rest)];
        for (int k = 0; k < kWarpSize; k++) merged[k] = std::max(merged[k], row[k]);
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) merged[__builtin_ctz(rest)] = watch.clock;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        std::memcpy(met[__builtin_ctz(rest)], merged, sizeof merged);
    }
}

void note_fence(Watch& watch, bool for_device) {
    watch.released[watch.worker->current] = ++watch.clock;
    watch.observed[watch.worker->current] = watch.clock;
    watch.fenced = true;
    fence_order(watch, for_device);
    fence_cluster(*watch.worker);
    if (for_device) watch.acquired = true;
}

bool closely_ordered(const Watch& watch, int thread, int other, uint32_t clock) {
    if (watch.exact) {
        const auto row = static_cast<size_t>(thread) * static_cast<size_t>(watch.columns);
        if (watch.known[row + static_cast<size_t>(column_of(watch, other))] > clock) return true;
    }
    if (other >= kMaxThreads) return false;
    const int warp = thread / kWarpSize;
    if (other / kWarpSize != warp) return has_learned(watch, thread, watch.block, other / kWarpSize, clock);
    if (clock < watch.released[other] && watch.released[other] <= watch.observed[thread]) return true;
    return clock < watch.warp_clock[warp] ||
           (watch.partly_met[warp] && clock < watch.met[warp][thread % kWarpSize][other % kWarpSize]);
}

}  // namespace kw

using namespace kw;

extern "C" {

void kw_check(int on) {
    if (!permitted("kw_check")) return;
    kw_checking = on != 0;
    wanted = kw_checking != 0;
}

}  // extern "C"
