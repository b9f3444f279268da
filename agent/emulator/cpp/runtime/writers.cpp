// Last writer of each word of global memory, and the launch of that write. Noted only in a replay that looks for the
// cause of a wrong output.
#include "watch.h"

#include <algorithm>

namespace kw {

namespace {

// Maxima and positions of the fields of a cell, as kw_writers in kw/runtime.h lists them. Larger numbers saturate.
constexpr uint64_t kMostLaunches = (1 << 12) - 1, kMostBlocks = (1 << 24) - 1, kMostTimes = (1 << 14) - 1;
constexpr uint64_t kSeveralThreads = 2, kAtomically = 1;
constexpr int kLaunchAt = 52, kBlockAt = 28, kThreadAt = 18, kTimesAt = 4;
constexpr uint64_t kWho = (uint64_t{1} << kLaunchAt) - (uint64_t{1} << kThreadAt);
constexpr size_t kCounted = 4;  // counters per thread, shared by regions of equal hash

bool wanted;
uint64_t launch_number;

// Returns how many stores the thread has already made to the region in this block, and counts one more.
uint64_t times(Watch& watch, const Region& region) {
    if (watch.stores.empty()) watch.stores.resize(kCounted * kMaxThreads);
    const size_t kind = (region.first >> 9) % kCounted;
    uint16_t& count = watch.stores[kind * kMaxThreads + static_cast<size_t>(watch.worker->current)];
    const uint64_t before = count;
    if (count < kMostTimes) count++;
    return before;
}

}  // namespace

bool notes_writers() { return wanted; }

void begin_noted_launch() {
    if (wanted && launch_number < kMostLaunches) launch_number++;
}

void note_writer(Watch& watch, uintptr_t address, size_t bytes, bool atomic) {
    if (address - watch.shared < kSharedArena || bytes == 0) return;
    Region* region = find_region(address);
    if (region == nullptr || address - region->first >= region->bytes) return;
    if (bytes > region->bytes - (address - region->first)) return;
    uint64_t* writers = writers_of(*region);
    if (writers == nullptr) return;
    const uint64_t block = kw_block_index.x + uint64_t{kw_grid_dim.x} * (kw_block_index.y + uint64_t{kw_grid_dim.y} * kw_block_index.z);
    const uint64_t me = launch_number << kLaunchAt | std::min(block, kMostBlocks) << kBlockAt |
                        static_cast<uint64_t>(watch.worker->current) << kThreadAt | times(watch, *region) << kTimesAt |
                        (atomic ? kAtomically : 0);
    const size_t last = ((address + bytes - 1) >> 2) - (region->first >> 2);
    for (size_t k = (address >> 2) - (region->first >> 2); k <= last; k++) {
        const uint64_t before = __atomic_load_n(writers + k, __ATOMIC_RELAXED);
        const bool again = before >> kLaunchAt == launch_number;
        const bool several = again && ((before & kSeveralThreads) != 0 || ((before ^ me) & kWho) != 0);
        __atomic_store_n(writers + k, me | (several ? kSeveralThreads : 0), __ATOMIC_RELAXED);
    }
}

}  // namespace kw

using namespace kw;

extern "C" {

void kw_note_writers(int on) {
    if (!permitted("kw_note_writers")) return;
    wanted = on != 0;
    launch_number = 0;
}

size_t kw_writers(const void* first, size_t bytes, uint64_t* cells) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    Region* region = find_live_region(address);
    if (region == nullptr || bytes == 0 || bytes > region->bytes - (address - region->first)) return 0;
    const uint64_t* writers = region->writers;
    if (writers == nullptr) return 0;
    const size_t from = (address >> 2) - (region->first >> 2);
    const size_t count = ((address + bytes - 1) >> 2) - (address >> 2) + 1;
    if (cells != nullptr) std::copy_n(writers + from, count, cells);
    return static_cast<size_t>(std::count_if(writers + from, writers + from + count,
                                             [](uint64_t cell) { return cell >> kLaunchAt == launch_number; }));
}

}  // extern "C"
