// Entry points of memory checks: the functions that the compiler calls before every access of device code.
//
// -fsanitize=thread makes the compiler insert the calls and names the functions. No sanitizer library is linked: this
// file defines the functions. Outside checked kernels they only perform the atomic operations. A volatile access to
// shared memory first brings the lanes of a warp together, so that code written for warps in lockstep computes the
// same as on a GPU.
#include "watch.h"

#include <cstring>

namespace kw {

int before_stores;

namespace {

constexpr size_t kFrame = 64 * 1024;

bool holds(uintptr_t first, size_t room, uintptr_t address, size_t bytes) {
    return address - first < room && bytes <= room - (address - first);
}

// Reports an access that lies in no region. A faulty loop gets here a million times, so the kind of fault is looked up
// once for each place in the code.
void report_misplaced(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code) {
    if (watch.misplaced_code != code) {
        watch.misplaced_code = code;
        watch.misplaced_kind = explain(address, bytes, access).kind;
    }
    if (watch.misplaced_kind == nullptr) return;
    watch.reported = address;
    report(watch.misplaced_kind, Severity::kError, at_code(code), watch.worker,
           [&] { return explain(address, bytes, access).text; });
}

Site& site_of(Watch& watch, uintptr_t code) { return watch.sites[(code ^ code >> 9) % kSites]; }

// Finds the memory to which the address belongs and caches it in the site. Returns false, after a finding, if the
// address belongs to no memory of the kernel.
__attribute__((noinline)) bool relocate(Watch& watch, Site& site, uintptr_t address, size_t bytes, Access access,
                                        uintptr_t code) {
    const Worker& worker = *watch.worker;
    const kw_launch_request& request = *worker.launch->request;
    Region* region = find_region(address);
    if (region != nullptr && holds(region->first, region->bytes, address, bytes)) {
        if (worker.launch->sampled) {  // each access must be counted as work, so the site caches no region
            sampled_access(watch, true, address, bytes, access, code);
            site = Site{};
            return true;
        }
        site = Site{region->first, region->bytes, cells_of(*region)};
        return true;
    }
    const uintptr_t stacks = reinterpret_cast<uintptr_t>(worker.stacks);
    const uintptr_t arguments = reinterpret_cast<uintptr_t>(request.arguments);
    // Only the block's own stacks count: for a block that runs beside others on its OS thread no more is mapped, and
    // another block's shared memory may lie behind them.
    const size_t room = kStackBytes * static_cast<size_t>(worker.count);
    if (holds(stacks, room, address, bytes)) {
        site = Site{stacks, room, nullptr};
        return true;
    }
    if (holds(arguments, request.argument_bytes, address, bytes)) {
        site = Site{arguments, request.argument_bytes, nullptr};
        return true;
    }
    // A launch through a function pointer reads the pointer, which lies in the host function's frame.
    if (request.by_pointer != 0 && access == Access::kRead && bytes == sizeof(void*) &&
        holds(arguments - kFrame, 2 * kFrame, address, bytes)) {
        return false;
    }
    if (in_module(address, reinterpret_cast<const void*>(request.entry), site)) return true;
    if (worker.cluster != nullptr && peer_access(watch, address, bytes, access, code)) return false;
    if (worker.launch->sampled) sampled_access(watch, false, address, bytes, access, code);
    report_misplaced(watch, address, bytes, access, code);
    return false;
}

__attribute__((noinline)) void access_parts(Watch& watch, const Site& site, uintptr_t address, size_t bytes,
                                            Access access, uintptr_t code) {
    while (bytes > 0) {
        const size_t part = bytes < 4 - (address & 3) ? bytes : 4 - (address & 3);
        GlobalCell* cell = site.cells + ((address >> 2) - (site.first >> 2));
        global_access(watch, cell, byte_mask(address, part), access, address, code);
        address += part;
        bytes -= part;
    }
}

// Checks any access to shared or global memory.
void check(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code) {
    if (address - watch.shared < kSharedArena) {
        const void* at = reinterpret_cast<const void*>(address);
        if (watch.worker->pending_copies > 0 && !check_in_flight(*watch.worker, at, bytes, access, code)) return;
        shared_access(watch, address - watch.shared, bytes, access, false, code);
        return;
    }
    Site& site = site_of(watch, code);
    if (__builtin_expect(!holds(site.first, site.bytes, address, bytes), 0) &&
        !relocate(watch, site, address, bytes, access, code)) {
        return;
    }
    if (site.cells == nullptr) return;
    if (bytes % 4 == 0 && address % 4 == 0) {
        GlobalCell* cell = site.cells + ((address >> 2) - (site.first >> 2));
        for (size_t k = 0; k < bytes / 4; k++) global_access(watch, cell + k, 15, access, address + 4 * k, code);
    } else {
        access_parts(watch, site, address, bytes, access, code);
    }
}

// Fast path of most accesses, which go to the same region as the last access from the same code and involve no other
// block. It uses few registers and no call. All other accesses go to check(), which notes the same about them.
template <size_t kBytes, Access kAccess>
inline __attribute__((always_inline)) void check_plain(Watch& watch, uintptr_t address, uintptr_t code) {
    if (address - watch.shared < kSharedArena) {
        if (watch.worker->pending_copies > 0) return check(watch, address, kBytes, kAccess, code);
        return shared_access(watch, address - watch.shared, kBytes, kAccess, false, code);
    }
    const Site& site = site_of(watch, code);
    if (!holds(site.first, site.bytes, address, kBytes)) return check(watch, address, kBytes, kAccess, code);
    if (site.cells == nullptr) return;
    constexpr size_t kUnit = kBytes < 4 ? kBytes : 4;
    if ((address & 3) > 4 - kUnit) return check(watch, address, kBytes, kAccess, code);
    GlobalCell* cell = site.cells + ((address >> 2) - (site.first >> 2));
    const uint64_t mask = kUnit == 4 ? 15 : byte_mask(address, kUnit);
    for (size_t k = 0; k < kBytes / kUnit; k++) {
        if (note_own<kAccess>(watch, cell + k, mask)) continue;
        if (kBytes <= 4) return global_access(watch, cell, mask, kAccess, address, code);
        global_access(watch, cell + k, mask, kAccess, address + 4 * k, code);
    }
}

// Called before a store in a launch that interleaves threads. Does not yield if an index was just found out of bounds,
// because the access with that index must follow directly.
void let_others_go(const void* p) {
    if (current_worker == nullptr || (watching != nullptr && watching->index.code != 0)) return;
    yield_before_store(reinterpret_cast<uintptr_t>(p));
}

void note_if_asked(const volatile void* p, size_t bytes, bool atomic) {
    if ((before_stores & kNotesWriters) == 0 || watching == nullptr) return;
    note_writer(*watching, reinterpret_cast<uintptr_t>(p), bytes, atomic);
}

__attribute__((noinline)) void check_store(void* p, size_t bytes, uintptr_t code) {
    if ((before_stores & kLetsOthersGo) != 0) let_others_go(p);
    note_if_asked(p, bytes, false);
    if (watching != nullptr) return check(*watching, reinterpret_cast<uintptr_t>(p), bytes, Access::kWrite, code);
    if (current_worker == nullptr) host_access(p, bytes, true, code);
}

// Checks a volatile read of global memory.
void watch_poll(Watch& watch, uintptr_t address, size_t bytes, uintptr_t code) {
    Site& site = site_of(watch, code);
    watch.polling = true;
    const bool known = holds(site.first, site.bytes, address, bytes) ||
                       relocate(watch, site, address, bytes, Access::kRead, code);
    watch.polling = false;
    if (!known || site.cells == nullptr) return;
    for (uintptr_t at = address; at < address + bytes; at += 4 - (at & 3)) {
        const GlobalCell& cell = site.cells[(at >> 2) - (site.first >> 2)];
        polled(watch, cell, byte_mask(at, address + bytes - at), at, code);
    }
}

// Checks a volatile access. Blocks and warps wait for each other through volatile memory, so a volatile access of
// global memory counts as atomic.
void watch_volatile(Watch& watch, uintptr_t address, size_t bytes, Access access, uintptr_t code) {
    const bool shared = address - watch.shared < kSharedArena;
    watch.acquired = true;
    watch.observed[watch.worker->current] = watch.clock;
    if (access == Access::kWrite) {
        publish_at(watch, address, false);
    } else {
        learn_from(watch, address, false);
    }
    if (shared) {
        shared_access(watch, address - watch.shared, bytes, access, true, code);
    } else if (access == Access::kWrite) {
        check(watch, address, bytes, Access::kAtomic, code);
    } else {
        watch_poll(watch, address, bytes, code);
    }
}

// Returns the value that the access is about to read.
uint64_t value_at(const void* pointer, size_t bytes) {
    switch (bytes) {
        case 1: return *static_cast<const volatile uint8_t*>(pointer);
        case 2: return *static_cast<const volatile uint16_t*>(pointer);
        case 4: return *static_cast<const volatile uint32_t*>(pointer);
        default: return *static_cast<const volatile uint64_t*>(pointer);
    }
}

void check_volatile(const void* pointer, size_t bytes, Access access, uintptr_t code) {
    if (current_worker == nullptr) return host_access(pointer, bytes, access == Access::kWrite, code);
    current_worker->access_code = code;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const bool shared = address - reinterpret_cast<uintptr_t>(current_worker->shared) < kSharedArena;
    if (shared) kw_warp_op(KW_ACTIVE_MASK, 0, 0, 0, kWarpSize, static_cast<int>(code));
    if (access == Access::kWrite) note_if_asked(pointer, bytes, false);
    if (watching != nullptr) watch_volatile(*watching, address, bytes, access, code);
    if (access == Access::kRead && bytes <= 8) poll(pointer, value_at(pointer, bytes), at_code(code), true);
}

void check_atomic(const volatile void* pointer, size_t bytes, bool reads, bool stores, uintptr_t code) {
    if (current_worker == nullptr) return host_access(pointer, bytes, stores, code);
    current_worker->access_code = code;
    if (watching == nullptr) return;
    Watch& watch = *watching;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (address % bytes != 0) {
        report(&finding::kMisalignedAccess, Severity::kError, at_code(code), watch.worker, [&] {
            return format("An atomic operation on %zu bytes at an address that is not a multiple of %zu bytes (%zu "
                          "too many). A GPU stops the kernel: misaligned address.",
                          bytes, bytes, static_cast<size_t>(address % bytes));
        });
    }
    watch.acquired = true;
    watch.observed[watch.worker->current] = watch.clock;
    const bool in_block = watch.in_block[watch.worker->current] != 0;
    learn_from(watch, address, in_block);
    if (stores) publish_at(watch, address, in_block);
    if (!reads) note_initialised(watch, address - watch.shared, bytes);
    // The shared memory of other blocks of the cluster lies outside the arena of global memory.
    const bool global = address - watch.shared >= kSharedArena && (watch.worker->cluster == nullptr || in_arena(address));
    if (global && !stores) return watch_poll(watch, address, bytes, code);
    note_if_asked(pointer, bytes, true);
    check(watch, address, bytes, global && in_block ? Access::kBlockAtomic : Access::kAtomic, code);
}

}  // namespace

void check_source(const void* from, size_t bytes, uintptr_t code) {
    if (watching != nullptr && bytes > 0) {
        check(*watching, reinterpret_cast<uintptr_t>(from), bytes, Access::kRead, code);
    }
}

void check_update(void* to, size_t bytes, uintptr_t code) {
    note_if_asked(to, bytes, true);
    if (watching != nullptr) check(*watching, reinterpret_cast<uintptr_t>(to), bytes, Access::kAtomic, code);
}

void check_copy(void* to, const void* from, size_t bytes, uintptr_t code) {
    if (watching == nullptr || bytes == 0) return;
    if (from != nullptr) check_source(from, bytes, code);
    note_if_asked(to, bytes, false);
    check(*watching, reinterpret_cast<uintptr_t>(to), bytes, Access::kWrite, code);
}

namespace {

// Checks a memcpy, memmove or memset in a kernel or in host code. `from` is null for a fill.
void announce_copy(void* to, const void* from, size_t bytes, uintptr_t code) {
    if (current_worker != nullptr) return check_copy(to, from, bytes, code);
    if (bytes == 0) return;
    if (from != nullptr) host_access(from, bytes, false, code);
    host_access(to, bytes, true, code);
}

}  // namespace

}  // namespace kw

using namespace kw;

#define KW_PLAIN(name, bytes, access)                                                              \
    void name(void* p) {                                                                           \
        if (access == Access::kWrite && before_stores != 0) return check_store(p, bytes, KW_CODE); \
        Watch* watch = watching;                                                                   \
        if (watch != nullptr) return check_plain<bytes, access>(*watch, reinterpret_cast<uintptr_t>(p), KW_CODE); \
        if (current_worker == nullptr) host_access(p, bytes, access == Access::kWrite, KW_CODE);           \
    }
#define KW_VOLATILE(name, bytes, access) \
    void name(void* p) { check_volatile(p, bytes, access, KW_CODE); }
#define KW_ACCESSES(bytes)                                             \
    KW_PLAIN(__tsan_read##bytes, bytes, Access::kRead)                 \
    KW_PLAIN(__tsan_write##bytes, bytes, Access::kWrite)               \
    KW_PLAIN(__tsan_unaligned_read##bytes, bytes, Access::kRead)       \
    KW_PLAIN(__tsan_unaligned_write##bytes, bytes, Access::kWrite)     \
    KW_VOLATILE(__tsan_volatile_read##bytes, bytes, Access::kRead)     \
    KW_VOLATILE(__tsan_volatile_write##bytes, bytes, Access::kWrite)   \
    KW_VOLATILE(__tsan_unaligned_volatile_read##bytes, bytes, Access::kRead)   \
    KW_VOLATILE(__tsan_unaligned_volatile_write##bytes, bytes, Access::kWrite)

#define KW_UPDATE(bits, T, name)                                                \
    T __tsan_atomic##bits##_##name(volatile T* p, T value, int) {               \
        check_atomic(p, sizeof(T), true, true, KW_CODE);                              \
        return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                     \
    }
#define KW_ATOMICS(bits, T)                                                     \
    T __tsan_atomic##bits##_load(const volatile T* p, int) {                    \
        check_atomic(p, sizeof(T), true, false, KW_CODE);                             \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                            \
    }                                                                           \
    void __tsan_atomic##bits##_store(volatile T* p, T value, int) {             \
        check_atomic(p, sizeof(T), false, true, KW_CODE);                             \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                           \
    }                                                                           \
    T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {             \
        check_atomic(p, sizeof(T), false, true, KW_CODE);                             \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                 \
    }                                                                           \
    bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T wanted, int, int) {      \
        check_atomic(p, sizeof(T), true, true, KW_CODE);                              \
        return __atomic_compare_exchange_n(p, expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    }                                                                           \
    bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T wanted, int, int) {        \
        check_atomic(p, sizeof(T), true, true, KW_CODE);                              \
        return __atomic_compare_exchange_n(p, expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    }                                                                           \
    KW_UPDATE(bits, T, fetch_add)                                               \
    KW_UPDATE(bits, T, fetch_sub)                                               \
    KW_UPDATE(bits, T, fetch_and)                                               \
    KW_UPDATE(bits, T, fetch_or)                                                \
    KW_UPDATE(bits, T, fetch_xor)                                               \
    KW_UPDATE(bits, T, fetch_nand)

extern "C" {

KW_ACCESSES(1)
KW_ACCESSES(2)
KW_ACCESSES(4)
KW_ACCESSES(8)
KW_ACCESSES(16)
KW_ATOMICS(8, uint8_t)
KW_ATOMICS(16, uint16_t)
KW_ATOMICS(32, uint32_t)
KW_ATOMICS(64, uint64_t)

// The linker redirects an extension's calls of memcpy, memmove and memset to these functions, because the compiler does
// not announce their accesses.
void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
    announce_copy(to, from, bytes, KW_CODE);
    return std::memcpy(to, from, bytes);
}

void* __wrap_memmove(void* to, const void* from, size_t bytes) {
    announce_copy(to, from, bytes, KW_CODE);
    return std::memmove(to, from, bytes);
}

void* __wrap_memset(void* to, int byte, size_t bytes) {
    announce_copy(to, nullptr, bytes, KW_CODE);
    return std::memset(to, byte, bytes);
}

void __tsan_read_range(void* p, size_t bytes) {
    if (watching != nullptr && bytes > 0) {
        check(*watching, reinterpret_cast<uintptr_t>(p), bytes, Access::kRead, KW_CODE);
    }
}

void __tsan_write_range(void* p, size_t bytes) {
    note_if_asked(p, bytes, false);
    if (watching != nullptr && bytes > 0) {
        check(*watching, reinterpret_cast<uintptr_t>(p), bytes, Access::kWrite, KW_CODE);
    }
}

void kw_block_scope(int on) {
    if (watching != nullptr) watching->in_block[watching->worker->current] = on != 0;
}

void kw_cached_read(const void* p, size_t bytes) {
    if (watching == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(p);
    watching->acquired = true;
    learn_from(*watching, address, false);
    watch_poll(*watching, address, bytes, KW_CODE);
}

void kw_read_only(const void* p, size_t bytes) {
    if (watching != nullptr) read_only_load(*watching, reinterpret_cast<uintptr_t>(p), bytes, KW_CODE);
}

// Called for __threadfence, and for __threadfence_block with a weaker memory order.
void __tsan_atomic_thread_fence(int order) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (watching != nullptr) note_fence(*watching, order == __ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int) {}
void __tsan_init(void) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

}  // extern "C"
