// Regions: the memory that kernels may use, with exact bounds in bytes. Regions are allocations of the arena, and
// tensors of torch's own allocator, which are registered when they are passed to an extension.
#include "watch.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace kw {

namespace {

constexpr size_t kNear = size_t{1} << 20;  // bytes between a bad address outside the arena and its region, at most
constexpr size_t kRemembered = 512;        // number of freed regions that are remembered
constexpr uintptr_t kNullPage = 64 * 1024;

struct Freed {
    uintptr_t first;
    size_t bytes;
    std::string label;
};

struct Registry {
    std::mutex mutex;
    std::map<uintptr_t, std::unique_ptr<Region>> live;
    std::map<uintptr_t, std::unique_ptr<Region>> modules;
    std::deque<Freed> freed;
    std::vector<std::unique_ptr<Region>> retired;  // removed regions that a running kernel may still use
    std::vector<Region*> published;
    bool changed = false;
};

// Never destroyed: tensors may still be freed while the process exits.
Registry& registry() {
    static Registry* instance = new Registry;
    return *instance;
}

template <class Cell>
size_t cell_bytes(const Region& region) {
    return (region.bytes / 4 + 2) * sizeof(Cell);
}

template <class Cell>
void drop(std::atomic<Cell*>& kept, const Region& region) {
    Cell* cells = kept.exchange(nullptr);
    if (cells != nullptr) munmap(cells, cell_bytes<Cell>(region));
}

void drop_cells(Region& region) {
    drop(region.cells, region);
    drop(region.writers, region);
}

// Returns an array of cells of the region, filled with zeros when first requested; null if there is no memory for it.
template <class Cell>
Cell* made(std::atomic<Cell*>& kept, const Region& region) {
    Cell* known = kept.load();
    if (known != nullptr) return known;
    const std::lock_guard<std::mutex> lock(registry().mutex);
    known = kept.load();
    if (known != nullptr) return known;
    void* cells = mmap(nullptr, cell_bytes<Cell>(region), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) return nullptr;
    madvise(cells, cell_bytes<Cell>(region), MADV_HUGEPAGE);
    kept = static_cast<Cell*>(cells);
    return kept;
}

void retire(Registry& r, std::map<uintptr_t, std::unique_ptr<Region>>::iterator found) {
    Region& region = *found->second;
    // Freed memory outside the arena is not remembered, because the host may already use its addresses again.
    if (in_arena(region.first)) r.freed.push_front(Freed{region.first, region.bytes, region.label});
    if (r.freed.size() > kRemembered) r.freed.pop_back();
    if (region.published) r.retired.push_back(std::move(found->second));
    r.live.erase(found);
    r.changed = true;
}

bool starts_inside(const Region& region, uintptr_t address) { return address - region.first < region.bytes; }

size_t distance(const Region& region, uintptr_t address) {
    if (address < region.first) return region.first - address;
    return starts_inside(region, address) ? 0 : address - region.first - region.bytes;
}

// Returns the live region that a bad address was most likely meant for, or null. In the arena that is the region at
// `owner`, whose gap holds the address. Outside the arena it is a region nearby.
const Region* meant_region(const Registry& r, uintptr_t address, uintptr_t owner) {
    if (owner != 0) {
        const auto found = r.live.find(owner);
        return found == r.live.end() ? nullptr : found->second.get();
    }
    const auto after = r.live.upper_bound(address);
    const Region* nearest = nullptr;
    if (after != r.live.end()) nearest = after->second.get();
    if (after != r.live.begin()) {
        const Region* before = std::prev(after)->second.get();
        if (nearest == nullptr || distance(*before, address) <= distance(*nearest, address)) nearest = before;
    }
    return nearest != nullptr && distance(*nearest, address) < kNear ? nearest : nullptr;
}

std::string named(size_t bytes, const std::string& label) {
    return label.empty() ? format("an allocation of %zu bytes", bytes)
                         : format("a %s (%zu bytes)", label.c_str(), bytes);
}

bool is_mapped(uintptr_t address) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    unsigned char resident;
    return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

// Returns the region of a library's variables, which lives as long as the process.
Region& module_region(uintptr_t first, size_t bytes) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    std::unique_ptr<Region>& region = r.modules[first];
    if (region == nullptr) {
        region = std::make_unique<Region>();
        region->first = first;
        region->bytes = bytes;
    }
    return *region;
}

struct ModuleSearch {
    uintptr_t address;
    uintptr_t entry;
    Site* site;
    bool found;
};

int look_into_module(dl_phdr_info* info, size_t, void* opaque) {
    ModuleSearch& search = *static_cast<ModuleSearch*>(opaque);
    const auto holds = [&](const ElfW(Phdr) & part, uintptr_t address) {
        return part.p_type == PT_LOAD && address - (info->dlpi_addr + part.p_vaddr) < part.p_memsz;
    };
    const ElfW(Phdr)* end = info->dlpi_phdr + info->dlpi_phnum;
    if (std::none_of(info->dlpi_phdr, end, [&](const ElfW(Phdr) & p) { return holds(p, search.entry); })) return 0;
    for (const ElfW(Phdr)* part = info->dlpi_phdr; part != end; part++) {
        // Thread-local storage belongs to the kernel too: a __shared__ variable that the rewriter missed lies there.
        const bool own = part->p_type == PT_TLS && info->dlpi_tls_data != nullptr &&
                         search.address - reinterpret_cast<uintptr_t>(info->dlpi_tls_data) < part->p_memsz;
        if (!own && !holds(*part, search.address)) continue;
        const uintptr_t first =
            own ? reinterpret_cast<uintptr_t>(info->dlpi_tls_data) : info->dlpi_addr + part->p_vaddr;
        // Accesses of a library's writable data are tracked like those of allocated memory.
        const bool tracked = !own && (part->p_flags & PF_W) != 0;
        *search.site = Site{first, part->p_memsz, tracked ? cells_of(module_region(first, part->p_memsz)) : nullptr};
        search.found = true;
    }
    return 1;
}

}  // namespace

void add_region(const void* first, size_t bytes, const char* label) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    // Older regions at these addresses are memory that torch has freed without notice.
    auto old = r.live.lower_bound(address);
    if (old != r.live.begin() && std::prev(old)->first + std::prev(old)->second->bytes > address) --old;
    while (old != r.live.end() && old->first < address + bytes) retire(r, old++);
    auto region = std::make_unique<Region>();
    region->first = address;
    region->bytes = bytes;
    region->label = label;
    r.live[address] = std::move(region);
    r.changed = true;
}

// Sets the label of the region that holds the memory. Returns false if no region holds all of it.
bool label_region(const void* first, size_t bytes, const char* label) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    const auto after = r.live.upper_bound(address);
    if (after == r.live.begin()) return false;
    Region& region = *std::prev(after)->second;
    if (address - region.first >= region.bytes || bytes > region.bytes - (address - region.first)) return false;
    region.label = label;
    return true;
}

void remove_region(const void* first) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const auto found = r.live.find(reinterpret_cast<uintptr_t>(first));
    if (found != r.live.end()) retire(r, found);
}

// Forgets freed regions that begin within newly allocated memory.
void forget_freed(uintptr_t first, size_t bytes) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const auto inside = [&](const Freed& freed) { return freed.first - first < bytes; };
    r.freed.erase(std::remove_if(r.freed.begin(), r.freed.end(), inside), r.freed.end());
}

// Makes the current regions visible to the next launch.
void publish_regions() {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (!r.changed) return;
    for (const auto& region : r.retired) drop_cells(*region);
    r.retired.clear();
    r.published.clear();
    for (const auto& [first, region] : r.live) {
        region->published = true;
        r.published.push_back(region.get());
    }
    r.changed = false;
}

// Returns the last region that begins at or before the address; the address may lie behind the region's end.
Region* find_region(uintptr_t address) {
    const std::vector<Region*>& all = registry().published;
    const auto after = std::upper_bound(all.begin(), all.end(), address,
                                        [](uintptr_t a, const Region* region) { return a < region->first; });
    return after == all.begin() ? nullptr : *std::prev(after);
}

// Returns the live region that holds the address, or null. May only be called between launches.
Region* find_live_region(uintptr_t address) {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const auto after = r.live.upper_bound(address);
    if (after == r.live.begin()) return nullptr;
    Region* region = std::prev(after)->second.get();
    return address - region->first < region->bytes ? region : nullptr;
}

// Returns the region's cells, or null if there is no memory for them. Without cells bounds are checked and races are
// not.
GlobalCell* cells_of(Region& region) { return made(region.cells, region); }

uint64_t* writers_of(Region& region) { return made(region.writers, region); }

// Clears all accesses from the cells, but keeps which bytes were ever written.
void clear_cells() {
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    for (const auto* known : {&r.live, &r.modules}) {
        for (const auto& [first, region] : *known) {
            GlobalCell* cells = region->cells;
            for (size_t k = 0; cells != nullptr && k < region->bytes / 4 + 2; k++) cells[k].blocks &= 15;
        }
    }
}

// Describes an access that does not lie entirely within one region.
Misplaced explain(uintptr_t address, size_t bytes, Access access) {
    const bool read = access == Access::kRead;
    const char* verb = read ? "Reads" : "Writes";
    if (address < kNullPage) {
        return {&finding::kNullPointer, format("%s %zu bytes at address 0x%zx: the pointer is null.", verb, bytes,
                                       static_cast<size_t>(address))};
    }
    const bool on_device = in_arena(address);
    const uintptr_t owner = on_device ? arena_owner(address) : 0;
    Registry& r = registry();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const Region* meant = meant_region(r, address, owner);
    Kind kind = read ? &finding::kGlobalOutOfBoundsRead : &finding::kGlobalOutOfBoundsWrite;
    const char* effect = read ? "The value is someone else's data, or the kernel faults."
                              : "It overwrites someone else's data, or the kernel faults.";
    for (const Freed& freed : r.freed) {
        if (address - freed.first >= freed.bytes || meant != nullptr) continue;
        return {&finding::kFreedPointer, format("%s %zu bytes inside %s that was freed before the launch.", verb, bytes,
                                        named(freed.bytes, freed.label).c_str())};
    }
    if (meant != nullptr && starts_inside(*meant, address)) {
        const size_t over = address + bytes - meant->first - meant->bytes;
        return {kind, format("%s %zu bytes that begin inside %s and end %zu bytes past its end. %s", verb, bytes,
                             named(meant->bytes, meant->label).c_str(), over, effect)};
    }
    if (meant != nullptr) {
        return {kind, format("%s %zu bytes, %zu bytes %s of %s. %s", verb, bytes, distance(*meant, address),
                             address < meant->first ? "before the start" : "past the end",
                             named(meant->bytes, meant->label).c_str(), effect)};
    }
    if (on_device) {
        return {kind, format("%s %zu bytes in device memory, far from every allocation. %s", verb, bytes, effect)};
    }
    if (!is_mapped(address)) return {nullptr, ""};  // no finding here, because the access faults
    return {&finding::kHostPointer, format("%s %zu bytes of host memory: the pointer is no device pointer. A GPU faults; "
                                   "copy the data to a tensor of the device (one made without device= is the "
                                   "host's) or pass it by value.",
                                   verb, bytes)};
}

// Returns true if the address lies in the kernel's library, which holds __device__ and __constant__ variables and
// string literals. Caches the segment in the site.
bool in_module(uintptr_t address, const void* entry, Site& site) {
    ModuleSearch search{address, reinterpret_cast<uintptr_t>(entry), &site, false};
    dl_iterate_phdr(look_into_module, &search);
    return search.found;
}

}  // namespace kw

using namespace kw;

extern "C" int kw_register(const void* first, size_t bytes, const char* label) {
    // Device memory is already described by its allocations.
    if (bytes == 0 || label_region(first, bytes, label) || in_arena(reinterpret_cast<uintptr_t>(first))) return 0;
    add_region(first, bytes, label);
    return 1;
}

extern "C" void kw_unregister(const void* first) {
    if (!in_arena(reinterpret_cast<uintptr_t>(first))) remove_region(first);
}
