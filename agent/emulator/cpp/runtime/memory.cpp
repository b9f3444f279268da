// Device memory: one reserved range of addresses, from which 512-byte aligned pieces are allocated.
//
// Unused addresses of several times its size lie on both sides of a piece; they cost no memory. So an index that is off
// by a few rows, or by a whole tensor, does not hit another tensor. Pages that were never allocated are inaccessible,
// so that a wild pointer faults as on a GPU.
#include "watch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace kw {

namespace {

constexpr size_t kAlignment = 512;
const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr size_t kGapFactor = 4;
constexpr size_t kLeastGap = size_t{4} << 20;
constexpr size_t kDenseGap = 1024;
// Number of pieces that get wide gaps. Each of them takes two of the 65530 mappings that a process may have.
constexpr size_t kSparsePieces = 12000;
// Address of the range, unless something else lies there. A replay in another process needs the same addresses.
constexpr uintptr_t kUsualPlace = uintptr_t{1} << 45;
constexpr size_t kSmallestArena = size_t{256} << 20;
constexpr size_t kReturnToSystem = size_t{128} << 10;  // bytes from which freed pieces may return their pages
constexpr size_t kKeptBytes = size_t{32} << 20;           // bytes of such freed pieces that keep their pages

struct Allocation {
    size_t bytes;
    size_t room;  // usable bytes, a multiple of kAlignment
    size_t gap;   // unused bytes on either side
    bool live;    // allocated and not freed
    bool used;    // the piece still holds the contents from when it was freed
};

struct Arena {
    uintptr_t usual_place;  // preferred address; 0: any address
    std::mutex mutex;
    uintptr_t first = 0;
    size_t capacity = 0;
    size_t used = 0;
    size_t kept = 0;  // bytes of freed pieces from kReturnToSystem on that keep their pages
    std::map<uintptr_t, Allocation> allocations;
    std::multimap<size_t, uintptr_t> free_by_room;
};

// The two ranges of device memory. Memory of torch's allocator has its own range, because records of device memory
// leave it out.
struct Arenas {
    Arena device{kUsualPlace};
    Arena torch{0};
};

// Never destroyed: tensors may still be freed while the process exits.
Arenas& arenas() {
    static Arenas* instance = new Arenas;
    return *instance;
}

bool holds(const Arena& a, uintptr_t address) { return a.capacity != 0 && address - a.first < a.capacity; }

Arena& arena_of(uintptr_t address) { return holds(arenas().torch, address) ? arenas().torch : arenas().device; }

// Returns the size of a range in bytes: a quarter of the limit on address space, because torch needs the rest.
size_t wanted_capacity() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return KW_LARGEST_ARENA;
    return std::clamp<size_t>(limit.rlim_cur / 4, kSmallestArena, KW_LARGEST_ARENA);
}

void reserve(Arena& a) {
    for (size_t capacity = wanted_capacity(); capacity >= kSmallestArena; capacity /= 2) {
        void* const wanted = reinterpret_cast<void*>(a.usual_place);
        void* memory = mmap(wanted, capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) continue;
        a.first = reinterpret_cast<uintptr_t>(memory);
        a.capacity = capacity;
        return;
    }
    std::fprintf(stderr, "emulator: no address space for device memory\n");
}

size_t up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Creates a piece behind the last piece and makes its pages accessible. Returns its address, or 0 if there is no room.
uintptr_t make_piece(Arena& a, size_t room, size_t gap) {
    // Pieces are staggered, because pieces at the same offset of a page would compete for the same cache lines.
    const size_t before = gap + a.allocations.size() % (kPage / kAlignment) * kAlignment;
    if (room > a.capacity || before + room + gap > a.capacity - a.used) return 0;
    const uintptr_t address = a.first + a.used + before;
    const uintptr_t page = address / kPage * kPage;
    void* first = reinterpret_cast<void*>(page);
    if (mprotect(first, up(address + room, kPage) - page, PROT_READ | PROT_WRITE) != 0) return 0;
    a.used += up(before + room + gap, kAlignment);
    return address;
}

// Returns the address of a free or new piece; 0 if there is no room.
uintptr_t take(Arena& a, size_t bytes, bool& was_used) {
    const size_t room = up(bytes, kAlignment);
    // A record identifies pieces by their address, so no piece is reused while the process records.
    const bool reuse = &a != &arenas().device || !recording();
    const auto free = reuse ? a.free_by_room.find(room) : a.free_by_room.end();
    if (free != a.free_by_room.end()) {
        const uintptr_t address = free->second;
        a.free_by_room.erase(free);
        Allocation& piece = a.allocations[address];
        if (piece.used && piece.bytes >= kReturnToSystem) a.kept -= piece.bytes;
        was_used = piece.used;
        piece.bytes = bytes;
        piece.live = true;
        return address;
    }
    size_t gap = up(std::max(kGapFactor * room, kLeastGap), kPage);
    uintptr_t address = a.allocations.size() < kSparsePieces ? make_piece(a, room, gap) : 0;
    if (address == 0) {
        gap = kDenseGap;
        address = make_piece(a, room, gap);
    }
    if (address == 0) return 0;
    a.allocations[address] = Allocation{bytes, room, gap, true, false};
    // While recording, a new piece gets the contents of a freed piece of its size, because it cannot reuse that piece.
    const auto old = a.free_by_room.find(room);
    was_used = &a == &arenas().device && keeps_contents() && old != a.free_by_room.end() &&
               a.allocations[old->second].used;
    if (was_used) std::memcpy(reinterpret_cast<void*>(address), reinterpret_cast<void*>(old->second), room);
    return address;
}

// Allocates a piece. Sets `was_used` if the piece still holds the contents from when it was freed.
void* allocate(Arena& a, size_t bytes, bool& was_used) {
    uintptr_t address;
    {
        const std::lock_guard<std::mutex> lock(a.mutex);
        if (a.capacity == 0) reserve(a);
        if (bytes > a.capacity) return nullptr;
        address = take(a, std::max<size_t>(bytes, 1), was_used);
    }
    if (address == 0) return nullptr;
    add_region(reinterpret_cast<void*>(address), bytes, "");
    return reinterpret_cast<void*>(address);
}

}  // namespace

// Returns kOutside if [pointer, pointer + bytes) lies outside device memory, kInside if it lies inside one allocation,
// and kBeyond otherwise.
Extent arena_extent(const void* pointer, size_t bytes) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    Arena& a = arena_of(address);
    const std::lock_guard<std::mutex> lock(a.mutex);
    if (!holds(a, address)) return Extent::kOutside;
    auto after = a.allocations.upper_bound(address);
    if (after == a.allocations.begin()) return Extent::kBeyond;
    const auto& [start, allocation] = *std::prev(after);
    const bool fits = address - start <= allocation.bytes && bytes <= allocation.bytes - (address - start);
    return allocation.live && fits ? Extent::kInside : Extent::kBeyond;
}

bool in_arena(uintptr_t address) { return holds(arena_of(address), address); }

bool is_torchs_own(uintptr_t address) { return holds(arenas().torch, address); }

// Returns the start of the piece in which, or in whose gap, the address lies; 0 if there is no such piece.
uintptr_t arena_owner(uintptr_t address) {
    Arena& a = arena_of(address);
    const std::lock_guard<std::mutex> lock(a.mutex);
    const auto after = a.allocations.upper_bound(address);
    if (after != a.allocations.end() && after->first - address <= after->second.gap) return after->first;
    if (after == a.allocations.begin()) return 0;
    const auto& [start, allocation] = *std::prev(after);
    return address - start < allocation.room + allocation.gap ? start : 0;
}

}  // namespace kw

using namespace kw;

extern "C" void* kw_alloc(size_t bytes) {
    if (sampling() && bytes >= KW_SAMPLED_BYTES) return reserve_piece(bytes);
    bool was_used = false;
    void* pointer = allocate(arenas().device, bytes, was_used);
    if (pointer == nullptr) return nullptr;
    if (sampling()) {
        std::memset(pointer, 0, bytes);
    } else if (!was_used || !keeps_contents()) {
        fill_fresh(pointer, bytes);
    }
    record_allocation(pointer, bytes);
    return pointer;
}

extern "C" void* kw_alloc_unfilled(size_t bytes) {
    bool was_used;
    return allocate(arenas().torch, bytes, was_used);
}

extern "C" int kw_on_device(const void* pointer) { return in_arena(reinterpret_cast<uintptr_t>(pointer)); }

extern "C" size_t kw_allocated(void) {
    size_t bytes = 0;
    for (Arena* a : {&arenas().device, &arenas().torch}) {
        const std::lock_guard<std::mutex> lock(a->mutex);
        for (const auto& [address, allocation] : a->allocations) bytes += allocation.live ? allocation.bytes : 0;
    }
    return bytes;
}

extern "C" void kw_free(void* pointer) {
    if (pointer == nullptr || release_piece(pointer)) return;
    record_free(pointer);
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    Arena& a = arena_of(address);
    const std::lock_guard<std::mutex> lock(a.mutex);
    const auto found = a.allocations.find(address);
    if (found == a.allocations.end() || !found->second.live) return;
    remove_region(pointer);
    found->second.live = false;
    a.free_by_room.emplace(found->second.room, address);
    const size_t bytes = found->second.bytes;
    found->second.used = bytes < kReturnToSystem || (&a == &arenas().device && a.kept + bytes <= kKeptBytes);
    if (bytes < kReturnToSystem) return;
    if (found->second.used) {
        a.kept += bytes;
        return;
    }
    const uintptr_t page = up(address, kPage);
    madvise(reinterpret_cast<void*>(page), (bytes - (page - address)) / kPage * kPage, MADV_DONTNEED);
}
