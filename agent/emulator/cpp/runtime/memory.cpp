// Device memory: one reserved range of addresses, handed out in 512-byte aligned pieces with unused zones
// around them. Pages that were never handed out are inaccessible, so that a wild pointer faults as on a GPU.
#include "watch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>

namespace kw {

namespace {

constexpr size_t kAlignment = 512;
constexpr size_t kRedzone = 1024;
constexpr size_t kCommitStep = size_t{2} << 20;
constexpr size_t kLargestArena = size_t{64} << 30;
// Where the range lies if nothing else does: a replay in another process needs the same addresses.
constexpr uintptr_t kUsualPlace = uintptr_t{1} << 45;
constexpr size_t kSmallestArena = size_t{256} << 20;
constexpr size_t kReturnToSystem = size_t{1} << 20;  // freed pieces of this size give their pages back

struct Allocation {
    size_t bytes;
    size_t room;  // with both redzones
    bool live;
};

struct Arena {
    std::mutex mutex;
    uintptr_t first = 0;
    size_t capacity = 0;
    size_t used = 0;
    size_t committed = 0;
    std::map<uintptr_t, Allocation> allocations;
    std::multimap<size_t, uintptr_t> free_by_room;
};

// Never destroyed: tensors may still be freed while the process exits.
Arena& arena() {
    static Arena* instance = new Arena;
    return *instance;
}

// As much as a limit on address space leaves room for; torch needs its share.
size_t wanted_capacity() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kLargestArena;
    return std::clamp<size_t>(limit.rlim_cur / 4, kSmallestArena, kLargestArena);
}

void reserve(Arena& a) {
    for (size_t capacity = wanted_capacity(); capacity >= kSmallestArena; capacity /= 2) {
        void* const wanted = reinterpret_cast<void*>(kUsualPlace);
        void* memory = mmap(wanted, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) continue;
        a.first = reinterpret_cast<uintptr_t>(memory);
        a.capacity = capacity;
        return;
    }
    std::fprintf(stderr, "emulator: no address space for device memory\n");
}

bool commit(Arena& a, size_t end) {
    if (end <= a.committed) return true;
    const size_t wanted = std::min((end + kCommitStep - 1) / kCommitStep * kCommitStep, a.capacity);
    void* start = reinterpret_cast<void*>(a.first + a.committed);
    if (end > a.capacity || mprotect(start, wanted - a.committed, PROT_READ | PROT_WRITE) != 0) return false;
    a.committed = wanted;
    return true;
}

// The address of the piece after its redzone; 0 when there is no room.
uintptr_t take(Arena& a, size_t bytes) {
    const size_t room = kRedzone + (bytes + kAlignment - 1) / kAlignment * kAlignment + kRedzone;
    // A record of what is done tells pieces apart by their address.
    const auto free = recording() ? a.free_by_room.end() : a.free_by_room.find(room);
    uintptr_t address;
    if (free != a.free_by_room.end()) {
        address = free->second;
        a.free_by_room.erase(free);
    } else {
        if (!commit(a, a.used + room)) return 0;
        address = a.first + a.used + kRedzone;
        a.used += room;
    }
    a.allocations[address] = Allocation{bytes, room, true};
    return address;
}

}  // namespace

// Where [pointer, pointer + bytes) lies: outside device memory, inside one allocation, or neither.
Extent arena_extent(const void* pointer, size_t bytes) {
    Arena& a = arena();
    const std::lock_guard<std::mutex> lock(a.mutex);
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (address - a.first >= a.capacity) return Extent::kOutside;
    auto after = a.allocations.upper_bound(address);
    if (after == a.allocations.begin()) return Extent::kBeyond;
    const auto& [start, allocation] = *std::prev(after);
    const bool fits = address - start <= allocation.bytes && bytes <= allocation.bytes - (address - start);
    return allocation.live && fits ? Extent::kInside : Extent::kBeyond;
}

}  // namespace kw

using namespace kw;

extern "C" void* kw_alloc(size_t bytes) {
    Arena& a = arena();
    uintptr_t address;
    {
        const std::lock_guard<std::mutex> lock(a.mutex);
        if (a.capacity == 0) reserve(a);
        if (bytes > a.capacity) return nullptr;
        address = take(a, std::max<size_t>(bytes, 1));
    }
    if (address == 0) return nullptr;
    void* pointer = reinterpret_cast<void*>(address);
    std::memset(pointer, 0xFF, bytes);
    add_region(pointer, bytes, "");
    record_allocation(pointer, bytes);
    return pointer;
}

extern "C" void kw_free(void* pointer) {
    if (pointer == nullptr) return;
    record_free(pointer);
    Arena& a = arena();
    const std::lock_guard<std::mutex> lock(a.mutex);
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const auto found = a.allocations.find(address);
    if (found == a.allocations.end() || !found->second.live) return;
    remove_region(pointer);
    found->second.live = false;
    a.free_by_room.emplace(found->second.room, address);
    if (found->second.bytes < kReturnToSystem) return;
    const uintptr_t page = (address + 4095) / 4096 * 4096;
    madvise(reinterpret_cast<void*>(page), (found->second.bytes - (page - address)) / 4096 * 4096, MADV_DONTNEED);
}
